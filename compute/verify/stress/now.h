// The clock of logs: all processes of the machine share it.
#pragma once

#include <chrono>
#include <cstdint>

namespace gossamer::stress {

inline int64_t NowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace gossamer::stress
