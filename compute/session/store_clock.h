// StoreClock: what this compute server knows of the store's time, which is memory server 0's.
//
// That server tells its time with each registration and renewal. It was that time somewhere between
// request and reply; since then both clocks have gone on, at rates that differ by 1/kDrift at most.
// So the time is known as an interval, some microseconds long. No two compute servers contradict
// each other: one takes an entry for alive only before its time is possible, and for expired only
// once it is certain (PROTOCOL.md, rule X1).
//
// Thread-safety: thread-safe. Cost: reading takes no lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>

#include "common/fabric/endpoint.h"

namespace gossamer {

class StoreClock {
 public:
  using Time = Endpoint::Clock::time_point;  // of this machine
  // Two quartz clocks that nobody steers differ by some 100 ppm.
  static constexpr int64_t kDrift = 2000;

  // Microseconds since 1970.
  struct Interval {
    int64_t earliest = 0;
    int64_t latest = std::numeric_limits<int64_t>::max();

    uint64_t earliest_ms() const {
      return static_cast<uint64_t>(std::max<int64_t>(earliest, 0)) / 1000;
    }
    uint64_t latest_ms() const { return static_cast<uint64_t>(latest) / 1000; }
  };

  // What memory server 0 has said.
  struct Sample {
    uint64_t time_us = 0;  // its time
    Time asked;            // when the request was sent,
    Time told;             // and when the reply was there
  };

  void Learn(const Sample& sample) {
    const std::lock_guard lock(mutex_);
    const int64_t told = Micros(sample.told);
    const int64_t at = std::max(told, at_.load(std::memory_order_relaxed));
    const int64_t ago = at - told;
    const int64_t took = told - Micros(sample.asked);
    const auto time = static_cast<int64_t>(sample.time_us);
    Interval fresh{time + ago - ago / kDrift, time + took + ago + (took + ago) / kDrift + 1};
    const Interval before = At(at);
    const Interval both{std::max(fresh.earliest, before.earliest),
                        std::min(fresh.latest, before.latest)};
    // What was known before is wrong if this machine, or that one, was suspended.
    if (both.earliest <= both.latest) fresh = both;
    const uint32_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    at_.store(at, std::memory_order_relaxed);
    earliest_.store(fresh.earliest, std::memory_order_relaxed);
    latest_.store(fresh.latest, std::memory_order_relaxed);
    version_.store(version + 2, std::memory_order_release);
  }
  Interval Now(Time now) const {
    for (;;) {
      const uint32_t version = version_.load(std::memory_order_acquire);
      const Interval known = At(Micros(now));
      std::atomic_thread_fence(std::memory_order_acquire);
      if (version % 2 == 0 && version_.load(std::memory_order_relaxed) == version) return known;
    }
  }

 private:
  static int64_t Micros(Time time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  }
  Interval At(int64_t now) const {
    const int64_t latest = latest_.load(std::memory_order_relaxed);
    if (latest == std::numeric_limits<int64_t>::max()) return {};
    const int64_t since = std::max<int64_t>(now - at_.load(std::memory_order_relaxed), 0);
    const int64_t drift = since / kDrift + 1;
    return {earliest_.load(std::memory_order_relaxed) + since - drift, latest + since + drift};
  }

  std::mutex mutex_;  // of Learn
  // Odd while what is known changes.
  std::atomic<uint32_t> version_ = 0;
  // What was known, in microseconds, at at_ of this machine's.
  std::atomic<int64_t> at_ = std::numeric_limits<int64_t>::min();
  std::atomic<int64_t> earliest_ = 0;
  std::atomic<int64_t> latest_ = std::numeric_limits<int64_t>::max();
};

}  // namespace gossamer
