// StoreTime: the clock of the memory servers of a run. It goes at another rate than that of the
// clients, which is the network's.
//
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/fabric/sim/sim.h"

namespace gossamer::simulator {

class StoreTime {
 public:
  // `ppm`: how much faster it goes, in 10^-6.
  StoreTime(const SimNetwork& network, int32_t ppm) : network_(network), ppm_(ppm) {}

  // Microseconds since 1970.
  uint64_t NowUs() const {
    return kBeginsUs + static_cast<uint64_t>(network_.Now().time_since_epoch().count() / 1000 *
                                             (kMillion + ppm_) / kMillion);
  }
  // When this clock comes to `ms` milliseconds since 1970: no client may find expired before what
  // does so then.
  Endpoint::Clock::time_point TimeOf(uint64_t ms) const {
    const auto us = static_cast<int64_t>(ms * 1000) - static_cast<int64_t>(kBeginsUs);
    return Endpoint::Clock::time_point(
        std::chrono::nanoseconds(us * kMillion * 1000 / (kMillion + ppm_)));
  }

 private:
  static constexpr uint64_t kBeginsUs = 1'700'000'000'000'000;
  static constexpr int64_t kMillion = 1'000'000;

  const SimNetwork& network_;
  const int64_t ppm_;
};

}  // namespace gossamer::simulator
