// How an endpoint of the verbs fabric opens queue pairs: by attempts that `Poll` begins and ends.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/fabric/verbs/endpoint.h"
#include "common/fabric/verbs/wire.h"

namespace gossamer::verbs {
namespace {

constexpr uint32_t kFirstQueuePairs = 4;  // initial room in the completion queue

uint32_t CompletionsOf(uint32_t verbs) {
  // One per work request. The replies' receives count twice, because those of the previous queue
  // pair may still be in the queue. A failed attempt has none: see `Install`.
  return SendDepth(verbs) + 2 * kControlDepth;
}

}  // namespace

// The completion queue must hold a completion of every work request at once, in case all fail.
Status VerbsEndpoint::MakeRoom(uint32_t queue_pairs) {
  const uint32_t each = CompletionsOf(limits_.max_outstanding_verbs);
  const auto most = static_cast<uint32_t>(std::max(device_->attributes().max_cqe, 1));
  const uint32_t needed = queue_pairs * each;
  if (needed > most) {
    return MakeError(
        Code::kNoResources,
        fmt::format("completion queues of {} hold {} entries, enough for {} memory servers",
                    device_->name(), most, most / each));
  }
  if (queue_ == nullptr) {
    const auto entries = static_cast<int>(std::min(most, kFirstQueuePairs * each));
    queue_.reset(ibv_create_cq(device_->verbs(), entries, nullptr, nullptr, 0));
    if (queue_ == nullptr) {
      const int error = errno;
      return LockingError(Code::kNoResources, "making a completion queue on " + device_->name(),
                          error);
    }
  } else if (static_cast<uint32_t>(queue_->cqe) < needed) {
    const int error = ibv_resize_cq(queue_.get(), static_cast<int>(std::min(most, 2 * needed)));
    if (error != 0) {
      return LockingError(Code::kNoResources, "enlarging a completion queue", error);
    }
  }
  return Ok();
}

Result<QueuePair*> VerbsEndpoint::MakeQueuePair(ServerId server) {
  BOOST_OUTCOME_TRYV(MakeRoom(attached_ + 1));
  auto queue_pair = std::make_unique<QueuePair>(server, limits_.max_outstanding_verbs);
  BOOST_OUTCOME_TRY(slots, buffers_.Allocate(2 * kControlDepth * kControlSlotBytes));
  queue_pair->slots = std::move(slots);
  const uint16_t index = ToInteger(server);
  if (queue_pairs_.size() <= index) queue_pairs_.resize(index + size_t{1});
  queue_pairs_[index] = std::move(queue_pair);
  ++attached_;
  return queue_pairs_[index].get();
}

uint64_t VerbsEndpoint::BrokenQueuePairId(ServerId server) const {
  const QueuePair* queue_pair = Find(server);
  if (queue_pair == nullptr || queue_pair->state == QueuePairState::kConnected) return 0;
  return queue_pair->connection.server.connection_id;
}

uint64_t VerbsEndpoint::WorkingQueuePairId(ServerId server) const {
  const QueuePair* queue_pair = Find(server);
  const bool works = queue_pair != nullptr && queue_pair->state == QueuePairState::kConnected;
  return works ? queue_pair->connection.server.connection_id : 0;
}

void VerbsEndpoint::Post(QueuePairRequest& request) {
  const auto is_same = [&](const auto& opening) {
    return opening->request->server == request.server;
  };
  if (std::ranges::any_of(openings_, is_same)) {
    return End(request, MakeError(Code::kInvalidArgument, "a queue pair is asked for already"));
  }
  const Result<Peer> peer = port_.FindPeer(request.server);
  if (!peer) return End(request, peer.error());
  if (peer.value().device.get() != device_.get()) {
    return End(request,
               MakeError(Code::kInvalidArgument, "the endpoint was made for another device"));
  }
  QueuePair* queue_pair = Find(request.server);
  if (queue_pair == nullptr) {
    const Result<QueuePair*> made = MakeQueuePair(request.server);
    if (!made) return End(request, made.error());
    queue_pair = made.value();
  }
  if (queue_pair->state == QueuePairState::kConnected) Break(*queue_pair);
  openings_.push_back(std::make_unique<Opening>(request, options_));
}

void VerbsEndpoint::End(QueuePairRequest& request, Status status) {
  request.status = std::move(status);
  ended_requests_.Push(request);
}

size_t VerbsEndpoint::PollOpenings() {
  std::erase_if(openings_, [this](const std::unique_ptr<Opening>& opening) {
    const Result<ConnectState> state = Advance(*opening);
    if (state && state.value() == ConnectState::kUnderWay) return false;
    End(*opening->request, state ? Status(Ok()) : Status(state.error()));
    return true;
  });
  completing_requests_.Append(ended_requests_.TakeAll());
  return CompleteAll(completing_requests_);
}

Result<ConnectState> VerbsEndpoint::Advance(Opening& opening) {
  QueuePair& queue_pair = *Find(opening.request->server);
  if (opening.attempt == nullptr) {
    // What is posted on the present queue pair must complete first; `CheckPeers` bounds the wait.
    if (queue_pair.state == QueuePairState::kBreaking || opening.retry.pauses()) {
      return ConnectState::kUnderWay;
    }
    BOOST_OUTCOME_TRYV(Begin(opening, queue_pair));
  }
  if (!opening.attempt->is_done()) return ConnectState::kUnderWay;
  const std::unique_ptr<OpeningAttempt> ended = std::move(opening.attempt);
  if (ended->status()) {
    Install(queue_pair, std::move(ended->connection()));
    return ConnectState::kDone;
  }
  // The server may have accepted, and its answer was lost. Its end of this attempt ends with ours;
  // the next attempt names the queue pair to be replaced again.
  if (opening.retry.Again(ended->status().error())) return ConnectState::kUnderWay;
  return ended->status().error();
}

// The server destroys the old queue pair first (rule U1). Our end of it stays until then, so that
// its disconnect cannot overtake the request to replace it.
Status VerbsEndpoint::Begin(Opening& opening, QueuePair& queue_pair) {
  BOOST_OUTCOME_TRY(peer, port_.FindPeer(queue_pair.server));
  ConnectRequest wanted;
  wanted.kind = RequestKind::kAttach;
  wanted.client_uuid = options_.client_uuid;
  wanted.incarnation = peer.incarnation;
  wanted.replaces = queue_pair.connection.server.connection_id;
  wanted.also_destroys = opening.request->also_destroys;
  rdma_cm_id* const id = queue_pair.connection.id.get();
  BareQueuePair replaced(id == nullptr ? nullptr : std::exchange(id->qp, nullptr));
  BOOST_OUTCOME_TRY(
      attempt, OpeningAttempt::Start({std::move(replaced), std::move(peer), opening.retry.NextEnd(),
                                      domain_.protection_domain(), queue_.get(), wanted},
                                     options_));
  opening.attempt = std::move(attempt);
  return Ok();
}

void VerbsEndpoint::Install(QueuePair& queue_pair, Connection connection) {
  queue_pair.connection = std::move(connection);
  ++queue_pair.epoch;
  const ConnectReply& info = queue_pair.connection.server;
  queue_pair.memory[static_cast<size_t>(Space::kRegion)] = info.region;
  queue_pair.memory[static_cast<size_t>(Space::kLockTable)] = info.lock_table;
  queue_pair.free_sends = queue_pair.free_replies = kControlDepth;
  queue_pair.next_request = queue_pair.next_reply = 0;
  queue_pair.first_sequence = queue_pair.next_sequence = 0;
  const uint32_t most = limits_.max_outstanding_verbs;
  queue_pair.window = info.verbs_at_once == 0 ? most : std::min(info.verbs_at_once, most);
  queue_pair.free_verbs = queue_pair.window;
  queue_pair.failure_seen = false;
  queue_pair.verbs_watch = queue_pair.calls_watch = {};
  queue_pair.state = QueuePairState::kConnected;
  queue_pair.was_connected = true;
  // Not sooner: the server sends nothing before it is asked, and a device may flush each failed
  // attempt's receives to the completion queue, which has room for one connection's only.
  for (uint32_t slot = 0; slot < kControlDepth; ++slot) {
    if (!queue_pair.PostReceive(slot) && queue_pair.state == QueuePairState::kConnected) {
      Break(queue_pair);
    }
  }
  limits_.path_mtu = std::min(limits_.path_mtu, queue_pair.connection.path_mtu);
}

}  // namespace gossamer::verbs
