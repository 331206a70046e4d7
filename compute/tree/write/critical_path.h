// CriticalPath: the round trips of several sequences of operations that run at the same time. Only
// those of the longest sequence count.
//
// Thread-safety: none.
#pragma once

#include <cstdint>

namespace gossamer {

class CriticalPath {
 public:
  // Operations that run one after the other, at the same time as those of other sequences.
  class Sequence {
   public:
    explicit Sequence(CriticalPath& path) : path_(path) {}

    // Call when an operation has ended after `round_trips`. Returns how many round trips that adds
    // to the critical path.
    uint64_t Extend(uint64_t round_trips) {
      length_ += round_trips;
      if (length_ <= path_.length_) return 0;
      const uint64_t longer = length_ - path_.length_;
      path_.length_ = length_;
      return longer;
    }

   private:
    CriticalPath& path_;
    uint64_t length_ = 0;
  };

 private:
  uint64_t length_ = 0;
};

}  // namespace gossamer
