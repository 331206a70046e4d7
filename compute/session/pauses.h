// Pauses: random pauses of a session, so that operations that collided do not collide again.
//
// Thread-safety: none; one for each session.
// Cost: a pause is a timer of the scheduler.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/fabric/scheduler.h"
#include "common/task.h"

namespace gossamer {

class Pauses {
 public:
  // Requires: `seed` != 0.
  Pauses(Scheduler& scheduler, uint64_t seed) : scheduler_(scheduler), state_(seed) {
    assert(seed != 0);
  }

  // xorshift64 (Marsaglia '03). Returns a number below `below`.
  uint64_t Random(uint64_t below) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ % below;
  }
  // Between half of `most_ns` and all of it.
  std::chrono::nanoseconds AtMost(uint64_t most_ns) {
    return std::chrono::nanoseconds(most_ns / 2 + Random(most_ns / 2));
  }
  // No pause after attempts 0 and 1, then at most 1 us, 2 us, ... 1 ms.
  Task<void> After(uint32_t attempt) {
    constexpr uint32_t kAtOnce = 2;
    constexpr uint32_t kLongestShift = 10;
    if (attempt < kAtOnce) co_return;
    co_await scheduler_.SleepFor(
        AtMost(uint64_t{1000} << std::min(attempt - kAtOnce, kLongestShift)));
  }

 private:
  Scheduler& scheduler_;
  uint64_t state_;
};

}  // namespace gossamer
