// How long something rests that could not be reached.
#pragma once

#include <algorithm>
#include <chrono>

namespace gossamer {

// Four times as long as the try took that failed, so that what blocks others is seldom tried; and `least`.
template <typename Duration>
constexpr Duration RestAfterTry(Duration took, Duration least = Duration{0}) {
  return std::max(least, 4 * took);
}

}  // namespace gossamer
