#include "compute/bench/lap_clock.h"

#include <thread>

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace gossamer::bench {

#ifdef __x86_64__

namespace {

bool HasInvariantCounter() {
  constexpr unsigned kPowerManagement = 0x80000007;
  constexpr unsigned kInvariantTsc = 1u << 8;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(kPowerManagement, &eax, &ebx, &ecx, &edx) != 0 && (edx & kInvariantTsc) != 0;
}

}  // namespace

LapClock::LapClock() {
  if (!HasInvariantCounter()) return;
  struct Reading {
    uint64_t ticks;
    uint64_t nanoseconds;
  };
  // The best of a few: the thread may lose its processor between the two clocks.
  const auto read = [] {
    constexpr int kTries = 8;
    Reading best{};
    uint64_t least = ~uint64_t{0};
    for (int i = 0; i < kTries; ++i) {
      const uint64_t before = SteadyNanoseconds();
      const uint64_t ticks = __rdtsc();
      const uint64_t took = SteadyNanoseconds() - before;
      if (took >= least) continue;
      least = took;
      best = {ticks, before + took / 2};
    }
    return best;
  };
  const Reading start = read();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Reading end = read();
  if (end.ticks <= start.ticks) return;
  nanoseconds_per_tick_ = static_cast<double>(end.nanoseconds - start.nanoseconds) /
                          static_cast<double>(end.ticks - start.ticks);
  has_counter_ = true;
}

#else

LapClock::LapClock() = default;

#endif

}  // namespace gossamer::bench
