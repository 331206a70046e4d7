// SweepNeed: which ends of leases a sweep has still to see to, and who sweeps (SweepRequest in
// proto/control.h).
//
// Thread-safety: none. Memory: some bytes for each lease in force.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "proto/control.h"

namespace gossamer {

class SweepNeed {
 public:
  // Memory is handed out under leases that have ended before this process began.
  void EndedBefore() { ++ended_; }
  // The compute server has a lease, perhaps the same as before.
  void Registered(uint64_t client_uuid) { clients_.try_emplace(client_uuid, Client{ended_}); }
  // It has got memory.
  void Allocated(uint64_t client_uuid) {
    if (const auto found = clients_.find(client_uuid); found != clients_.end()) {
      found->second.has_said_farewell = false;
    }
  }
  // Its lease has ended. Also a compute server without memory may have removed memory of others
  // from the tree, and not have given it back.
  void Ended(uint64_t client_uuid) {
    if (sweeper_ == client_uuid) sweeper_.reset();
    const auto found = clients_.find(client_uuid);
    const bool is_clean = found != clients_.end() && found->second.has_said_farewell &&
                          found->second.ended_before == ended_;
    if (found != clients_.end()) clients_.erase(found);
    if (!is_clean) ++ended_;
  }

  // Requires (unchecked): the request is one of the steps; a sender that begins has a lease.
  control::SweepReply Take(uint64_t client_uuid, const control::SweepRequest& request) {
    using Step = control::SweepStep;
    switch (request.step) {
      case Step::kAsk: break;
      case Step::kBegin:
        if (!sweeper_) sweeper_ = client_uuid;
        break;
      case Step::kEnd:
        if (sweeper_ == client_uuid) sweeper_.reset();
        break;
      case Step::kDone:
        // A sweep that began earlier than the last one may end later.
        if (ended_ - request.ended < ended_ - swept_) swept_ = request.ended;
        break;
      case Step::kFarewell:
        if (const auto found = clients_.find(client_uuid); found != clients_.end()) {
          found->second.has_said_farewell = true;
        }
        break;
    }
    control::SweepReply reply;
    reply.ended = ended_;
    reply.swept = swept_;
    reply.is_sender = sweeper_ == client_uuid ? 1 : 0;
    return reply;
  }

 private:
  struct Client {
    uint32_t ended_before;  // `ended_` when the lease began
    bool has_said_farewell = false;
  };

  uint32_t ended_ = 0;
  uint32_t swept_ = 0;
  std::optional<uint64_t> sweeper_;
  std::unordered_map<uint64_t, Client> clients_;  // with leases in force
};

}  // namespace gossamer
