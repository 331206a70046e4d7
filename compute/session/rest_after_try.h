// How long something rests that could not be reached.
#pragma once

#include <algorithm>
#include <chrono>

namespace gossamer {

// Returns the larger of `least` and four times the duration of the failed try, so that what blocks others is seldom tried.
template <typename Duration>
constexpr Duration RestAfterTry(Duration took, Duration least = Duration{0}) {
  return std::max(least, 4 * took);
}

}  // namespace gossamer
