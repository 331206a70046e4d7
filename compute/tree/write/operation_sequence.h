// OperationSequence: the round trips of operations that run one after the other, at the same time
// as those of other sequences. Only those of the longest sequence, the critical path, count.
//
// Thread-safety: none.
#pragma once

#include <cstdint>

namespace gossamer {

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

 private:
  uint64_t& longest_;
  uint64_t length_ = 0;
};

}  // namespace gossamer
