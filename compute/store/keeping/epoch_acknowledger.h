// EpochAcknowledger: finds out when this compute server may acknowledge the epochs of its memory
// servers (proto/control.h).
//
// It acknowledges those of all servers together, in rounds. A round empties the cache, which takes
// nothing more of the operations under way, and waits until these have ended. No pointer is left
// then that this compute server had before. At last it has the memory given back that operations
// have freed (rule G2). A server is left out while a lock of it is orphaned, or the outcome is
// unknown of giving memory back to it: a WRITE or a request may still arrive there. So is one to
// which the memory could not be sent yet.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <map>

#include "common/fabric/scheduler.h"
#include "common/task.h"
#include "compute/node/store_state.h"

namespace gossamer {

class EpochAcknowledger {
 public:
  explicit EpochAcknowledger(StoreState& store) : store_(store) {}

  // The server has said which epoch is its present one, and which this compute server has
  // acknowledged.
  void Learn(ServerId server, uint32_t present, uint32_t acknowledged);
  // The last epoch that may be acknowledged to the server.
  uint32_t AcknowledgedTo(ServerId server) const;
  // Whether a round is under way, or is to be begun. Not for servers alone that are left out.
  bool is_busy() const;
  // Whether memory is being given back over the scheduler of Tend, which must go on until that has
  // ended.
  bool is_giving_back() const { return phase_ == Phase::kReturns && !has_given_back_; }
  // Gives back what could not be sent to the server earlier. Call while there is a connection to
  // it.
  Task<void> GiveBackOverdue(Scheduler& scheduler, ServerId server);
  // Goes on without waiting. Returns whether a round has ended.
  bool Tend(Scheduler& scheduler);

 private:
  enum class Phase : uint8_t { kIdle, kOperations, kReturns };
  struct Epochs {
    uint32_t present = 0;
    uint32_t awaited = 0;  // by the round under way
    uint32_t acknowledged = 0;
  };

  // Whether nothing of the past is on its way to the server.
  bool MayAcknowledge(ServerId server) const;
  Task<void> GiveBack(Scheduler& scheduler);

  StoreState& store_;
  Phase phase_ = Phase::kIdle;
  bool has_given_back_ = false;
  std::map<ServerId, Epochs> servers_;
};

}  // namespace gossamer
