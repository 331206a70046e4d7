// OperationSequence: operations of one call that run one after the other, at the same time as those
// of other sequences.
//
// Of their round trips, only those of the longest sequence, the critical path, count.
//
// They share their patience with memory servers that are away: what one has waited in vain, the
// next one does not wait again. So the call waits for as long as a single operation does.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/status.h"
#include "compute/session/op.h"

namespace gossamer {

class SharedPatience {
 public:
  void Begin(Op& op) const { op.lost_since = lost_since_; }
  void End(const Op& op, const Status& status) {
    const bool was_in_vain = !status && (status.error().code == Code::kNodeUnreachable ||
                                         status.error().code == Code::kMaybeApplied);
    lost_since_ = was_in_vain ? op.lost_since : std::nullopt;
  }

 private:
  std::optional<std::chrono::steady_clock::time_point> lost_since_;
};

class OperationSequence {
 public:
  // `longest`, of all sequences of a call, outlives them.
  explicit OperationSequence(uint64_t& longest) : longest_(longest) {}

  // Call when an operation has ended after `round_trips`. Returns how many round trips that adds to
  // the critical path.
  uint64_t Extend(uint64_t round_trips) {
    length_ += round_trips;
    if (length_ <= longest_) return 0;
    const uint64_t longer = length_ - longest_;
    longest_ = length_;
    return longer;
  }
  SharedPatience& patience() { return patience_; }

 private:
  uint64_t& longest_;
  uint64_t length_ = 0;
  SharedPatience patience_;
};

}  // namespace gossamer
