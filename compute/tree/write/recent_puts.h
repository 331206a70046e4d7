// RecentPuts: tells whether the next put of a session is probably an insert.
//
// An insert needs more units of its leaf than an update, and reads them along if it is expected.
//
// Thread-safety: none; one for each session.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gossamer {

class RecentPuts {
 public:
  // Whether one of the last kRemembered puts was an insert.
  bool expect_insert() const { return since_insert_ < kRemembered; }
  // Some puts were done.
  void Add(uint64_t inserted, uint64_t updated) {
    since_insert_ = inserted != 0 ? 0 : std::min(since_insert_ + updated, kRemembered);
  }

 private:
  static constexpr uint64_t kRemembered = 32;

  uint64_t since_insert_ = 0;
};

}  // namespace gossamer
