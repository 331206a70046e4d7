// Threads that begin at once.
#pragma once

#include <cstdint>
#include <functional>

#include "common/status.h"

namespace gossamer::lab {

// Calls body(0), body(1), ... on `threads` threads, all of which have started before the first
// call.
// Returns when all calls have. Errors: Unsupported if this machine cannot start a thread; `body` is
// not called then.
Status RunTogether(uint32_t threads, const std::function<void(uint32_t thread)>& body);

}  // namespace gossamer::lab
