// Sets of named things, as flags give them: "none", "all", or names with commas between.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

namespace gossamer::simulator {

// Bit i stands for names[i]. InvalidArgument names the word that is none of them; `flag` and `what` (as "fault") are for
// its sentence.
Result<uint32_t> ParseNames(std::string_view text, std::span<const std::string_view> names,
                            std::string_view flag, std::string_view what);
// What ParseNames reads as that set.
std::string NamesOf(uint32_t set, std::span<const std::string_view> names);

}  // namespace gossamer::simulator
