// FillAlarm: says once, each time that it happens, that memory has become nearly full.
//
// Thread-safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace gossamer {

// What can be done about full memory servers.
inline constexpr char kFullRemedy[] =
    "delete keys, start another memory server, run `gossamer sweep` if `gossamer stat` shows lost "
    "memory, or try again in a few seconds if it shows kept memory";

class FillAlarm {
 public:
  // Returns the percentage, one of kSteps, that `used` of `total` bytes have newly reached; 0 if
  // none. A step counts as new again once the use has fallen by kFall percent below it.
  uint32_t Update(uint64_t used, uint64_t total) {
    const auto reaches = [&](uint32_t percent) {
      return static_cast<double>(used) * 100 >= static_cast<double>(total) * percent;
    };
    if (total == 0) return 0;
    while (reached_ != 0 && !reaches(kSteps[reached_ - 1] - kFall)) --reached_;
    const size_t before = reached_;
    while (reached_ < kSteps.size() && reaches(kSteps[reached_])) ++reached_;
    return reached_ > before ? kSteps[reached_ - 1] : 0;
  }

 private:
  static constexpr std::array<uint32_t, 3> kSteps{80, 90, 95};
  static constexpr uint32_t kFall = 5;

  size_t reached_ = 0;  // steps
};

}  // namespace gossamer
