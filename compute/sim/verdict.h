// What is wrong with a run, and which errors its faults explain.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "compute/sim/plan.h"

namespace gossamer::simulator {

class Verdict {
 public:
  explicit Verdict(const Plan& plan) : plan_(plan) {}

  void Wrong(std::string sentence) {
    constexpr size_t kKept = 5;
    if (problems_.size() < kKept) problems_.push_back(std::move(sentence));
  }
  // An operation ended with `error`: wrong, unless a fault of the run can have that effect.
  void Judge(const std::string& operation, const Error& error) {
    if (IsExplained(error.code)) {
      ++explained_;
      if (error.code != Code::kExhausted) ++lost_;
    } else {
      Wrong(operation + ": " + error.ToString());
    }
  }
  bool IsExplained(Code code) const {
    const FaultSet& faults = plan_.faults;
    const bool loses_connections =
        faults.has(Fault::kBreak) || faults.has(Fault::kPause) || faults.has(Fault::kPartition);
    switch (code) {
      case Code::kExhausted: return faults.has(Fault::kExhaust);
      case Code::kNodeUnreachable:
      case Code::kFenced:
      case Code::kMaybeApplied: return loses_connections;
      // Contended too: locks are taken from the dead, and nobody stops for as long as others wait.
      default: return false;
    }
  }

  // Whether clients may die or lose their leases, and leave locks behind that nobody has asked for since.
  bool may_die() const {
    const FaultSet& faults = plan_.faults;
    return faults.has(Fault::kKill) || faults.has(Fault::kCut) || faults.has(Fault::kPause) ||
           faults.has(Fault::kBreak) || faults.has(Fault::kPartition);
  }
  // Errors that a fault explained.
  uint64_t explained() const { return explained_; }
  // Of these, those of operations that lost a memory server, or their lease.
  uint64_t lost() const { return lost_; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  const Plan& plan_;
  uint64_t explained_ = 0;
  uint64_t lost_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace gossamer::simulator
