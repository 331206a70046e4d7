// Sets of named things as flag values: "none", "all", or a comma-separated list.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

namespace gossamer::simulator {

// Bit i stands for names[i]. The message uses `flag` and `what` (such as "fault").
// Errors: InvalidArgument, naming the word that is not one of `names`.
Result<uint32_t> ParseNames(std::string_view text, std::span<const std::string_view> names,
                            std::string_view flag, std::string_view what);
// The text that ParseNames reads as `set`.
std::string NamesOf(uint32_t set, std::span<const std::string_view> names);

}  // namespace gossamer::simulator
