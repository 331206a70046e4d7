// LapClock: how long operations take, at the least cost of a reading.
//
// Reads the processor's time-stamp counter if that is invariant, that is, counts at one rate on all
// processors and in every power state (AMD64 Architecture Programmer's Manual 2, TSC; Intel SDM 3,
// Invariant TSC): 7 ns. Otherwise reads
// std::chrono::steady_clock: 23 ns. A reading of the counter waits for no instruction before it, so
// it may be early by what the processor has begun ahead, some 100 ns.
//
// Thread-safety: thread-safe.
#pragma once

#include <chrono>
#include <cstdint>

#ifdef __x86_64__
#include <x86intrin.h>
#endif

namespace gossamer::bench {

class LapClock {
 public:
  // Measures the counter's rate. Cost: 10 ms.
  LapClock();

  // In ticks, since an arbitrary moment.
  uint64_t Now() const {
#ifdef __x86_64__
    if (has_counter_) return __rdtsc();
#endif
    return SteadyNanoseconds();
  }
  // 0 if `end` comes before `start`, as another processor's counter may say.
  uint64_t NanosecondsBetween(uint64_t start, uint64_t end) const {
    if (end <= start) return 0;
    return static_cast<uint64_t>(static_cast<double>(end - start) * nanoseconds_per_tick_);
  }

 private:
  static uint64_t SteadyNanoseconds() {
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                 std::chrono::nanoseconds(1));
  }

  bool has_counter_ = false;
  double nanoseconds_per_tick_ = 1;
};

}  // namespace gossamer::bench
