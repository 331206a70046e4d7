// A queue pair of an endpoint that is being opened, attempt by attempt.
//
// Thread-safety: none. Nothing here blocks.
#pragma once

#include <cstdint>
#include <optional>

#include "common/fabric/compute_port.h"
#include "common/fabric/verbs/connect.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/queue_pair.h"

namespace gossamer::verbs {

struct Opening {
  Opening(QueuePairRequest& wanted, const ComputePortOptions& options)
      : request(&wanted), retry(options) {}

  // Starts an attempt.
  Status Begin(const Peer& peer, Device& device, const ComputePortOptions& options);
  // Requires (unchecked): the attempt has resolved its path. `queue`: for the completions of the
  // new queue pair.
  Status AskToConnect(const Peer& peer, ibv_cq* queue, uint64_t client_uuid, QueuePair& queue_pair);
  // Puts the replaced connection back.
  void GiveUpAttempt(QueuePair& queue_pair);

  QueuePairRequest* request;
  RetryWhileStale retry;
  std::optional<ConnectAttempt> attempt;  // none: the present queue pair has not ended, or a pause
  Connection replaced;                    // while its successor requests the replacement
  bool is_connecting = false;
};

}  // namespace gossamer::verbs
