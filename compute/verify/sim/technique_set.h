// The techniques of a run's clients and memory servers: `--techniques=drawn|all|none|LIST`.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"
#include "gossamer/techniques.h"

namespace gossamer::simulator {

struct TechniqueSet {
  Techniques client;
  bool on_chip_locks = true;  // of memory servers: where their lock tables are
};

// In the order of a set's bits.
inline constexpr std::array<std::string_view, 4> kTechniqueNames = {
    "combine_commands", "hierarchical_locks", "two_level_versions", "on_chip_locks"};

TechniqueSet TechniquesOf(uint32_t bits);
// Returns nullopt for "drawn"; otherwise as ParseNames.
Result<std::optional<TechniqueSet>> ParseTechniques(std::string_view text);
// The text that ParseTechniques reads as `techniques`.
std::string ToString(const std::optional<TechniqueSet>& techniques);

}  // namespace gossamer::simulator
