#include "compute/verify/sim/technique_set.h"

#include "compute/verify/sim/names.h"

namespace gossamer::simulator {
namespace {

constexpr std::string_view kDrawn = "drawn";

}  // namespace

TechniqueSet TechniquesOf(uint32_t bits) {
  const auto has = [bits](uint32_t bit) { return (bits >> bit & 1) != 0; };
  return {{has(0), has(1), has(2)}, has(3)};
}

Result<std::optional<TechniqueSet>> ParseTechniques(std::string_view text) {
  if (text == kDrawn) return std::optional<TechniqueSet>();
  BOOST_OUTCOME_TRY(bits,
                    ParseNames(text, kTechniqueNames, "--techniques", "technique, nor 'drawn'"));
  return std::optional(TechniquesOf(bits));
}

std::string ToString(const std::optional<TechniqueSet>& techniques) {
  if (!techniques) return std::string(kDrawn);
  const uint32_t bits = (techniques->client.combine_commands ? 1u : 0u) |
                        (techniques->client.hierarchical_locks ? 2u : 0u) |
                        (techniques->client.two_level_versions ? 4u : 0u) |
                        (techniques->on_chip_locks ? 8u : 0u);
  return NamesOf(bits, kTechniqueNames);
}

}  // namespace gossamer::simulator
