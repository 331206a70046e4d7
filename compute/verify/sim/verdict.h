// What is wrong with a run, and which errors its faults explain.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/sim/sim.h"
#include "common/status.h"
#include "compute/verify/sim/plan.h"

namespace gossamer::simulator {

// An operation of a client that ended with an error now.
struct FailedOperation {
  std::string name;  // for people
  uint64_t client_uuid = 0;
  uint64_t endpoint_id = 0;  // of its session
  Endpoint::Clock::time_point since;
};

// Whether one of `faults` explains that an operation, which ended at `now`, lost a memory server.
//
// A call that is lost is made again, and a queue pair that merely breaks is replaced, and what was posted on it is settled:
// the caller does not notice (PROTOCOL.md, "Errors"), unless an operation that has written nothing has met that so often
// that it gives up, or the memory server stops as well, and is taken for one that does not answer. Of what lasts, another
// session's loss counts, too: it may have done this operation along with its own, or hold the lock.
bool ExplainsLoss(std::span<const SimFault> faults, const FailedOperation& operation,
                  SimFault::Clock::time_point now, Code code);

class Verdict {
 public:
  Verdict(const Plan& plan, const SimNetwork& network) : plan_(plan), network_(network) {}

  void Wrong(std::string sentence);
  // An operation ended with `error`: wrong, unless it met a fault that can have that effect.
  void Judge(const FailedOperation& operation, const Error& error);
  // Whether a client that began to open the store at `since` may fail with `error` now.
  bool ExplainsOpening(uint64_t client_uuid, Endpoint::Clock::time_point since,
                       const Error& error) const;

  // From now on the store's record may not name all memory servers, or not be read; or it is in order again.
  void RecordIsLost() { is_record_lost_ = true; }
  void RecordIsBack() {
    is_record_lost_ = false;
    record_back_at_ = network_.Now();
  }

  // Whether clients may die or lose their leases, and leave locks behind that nobody has asked for since.
  bool may_die() const;
  // Errors that a fault explained.
  uint64_t explained() const { return explained_; }
  // Of these, those of operations that lost a memory server, or their lease.
  uint64_t lost() const { return lost_; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  // Whether an operation that began at `since` may have looked in vain for a memory server that it met in the tree.
  bool RecordExplains(Endpoint::Clock::time_point since) const {
    return is_record_lost_ || (record_back_at_ && *record_back_at_ >= since);
  }

  const Plan& plan_;
  const SimNetwork& network_;
  uint64_t explained_ = 0;
  uint64_t lost_ = 0;
  std::vector<std::string> problems_;
  bool is_record_lost_ = false;
  std::optional<Endpoint::Clock::time_point> record_back_at_;
};

}  // namespace gossamer::simulator
