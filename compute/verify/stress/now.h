// The clock of logs, which all processes share, and how long they wait for each other.
#pragma once

#include <chrono>
#include <cstdint>

namespace gossamer::stress {

inline int64_t NowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

inline double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// How long a client process may take to end after it was told to, or to open the next store.
inline constexpr std::chrono::seconds kPatience{60};
// The pause before a try is repeated.
inline constexpr std::chrono::milliseconds kTryAgain{20};

}  // namespace gossamer::stress
