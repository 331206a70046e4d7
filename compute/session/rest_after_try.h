// How long to pause after a failed attempt to reach something.
#pragma once

#include <algorithm>
#include <chrono>

namespace gossamer {

// Returns the larger of `least` and four times the duration of the failed try, so that tries, which
// block others, are rare.
template <typename Duration>
constexpr Duration RestAfterTry(Duration took, Duration least = Duration{0}) {
  return std::max(least, 4 * took);
}

}  // namespace gossamer
