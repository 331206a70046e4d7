// The error replies for errors of the store. They begin with a word for programs (docs/redis.md).
#pragma once

#include <string>

#include "common/status.h"

namespace gossamer::gateway {

// "UNREACHABLE memory server 1 …": without the '-'.
std::string ErrorLine(const Error& error);

}  // namespace gossamer::gateway
