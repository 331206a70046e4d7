// The commands of Redis 7 that Gossamer does not have, and why.
//
// Thread-safety: no shared state. Cost: a comparison for each name.
#pragma once

#include <string_view>

namespace gossamer::gateway {

// The text of the error reply to a command of this name, in any case; empty if Redis has none
// either, or Gossamer has it.
std::string_view ReasonOfAbsence(std::string_view name);

}  // namespace gossamer::gateway
