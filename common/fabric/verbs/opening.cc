#include "common/fabric/verbs/opening.h"

#include <utility>

#include "common/fabric/verbs/wire.h"

namespace gossamer::verbs {

Status Opening::Begin(const Peer& peer, Device& device, const ComputePortOptions& options) {
  BOOST_OUTCOME_TRY(begun, ConnectAttempt::Begin(peer.address, &device, options, retry.deadline()));
  attempt.emplace(std::move(begun));
  return Ok();
}

// The server destroys the old queue pair first (rule U1). Our end of it stays until then, so that
// its disconnect cannot overtake the request to replace it.
Status Opening::AskToConnect(const Peer& peer, ibv_cq* queue, uint64_t client_uuid,
                             QueuePair& queue_pair) {
  BOOST_OUTCOME_TRY(connection, attempt->MakeQueuePair(peer, queue));
  replaced = std::exchange(queue_pair.connection, std::move(connection));
  is_connecting = true;
  ++queue_pair.epoch;
  ConnectRequest wanted;
  wanted.kind = RequestKind::kAttach;
  wanted.client_uuid = client_uuid;
  wanted.incarnation = peer.incarnation;
  wanted.replaces = replaced.server.connection_id;
  wanted.also_destroys = request->also_destroys;
  return attempt->Send(queue_pair.connection, wanted);
}

void Opening::GiveUpAttempt(QueuePair& queue_pair) {
  if (std::exchange(is_connecting, false)) {
    // The server may have accepted, and its answer was lost. Its end of this attempt ends with
    // ours; the next attempt names the queue pair to be replaced again.
    std::swap(queue_pair.connection, replaced);
    replaced = {};
  }
  attempt.reset();
}

}  // namespace gossamer::verbs
