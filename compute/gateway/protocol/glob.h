// Patterns of KEYS and SCAN MATCH, as Redis has them: `*`, `?`, `[a-z]`, `[^a]`, and `\` in front
// of any of these.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gossamer::gateway {

// Longer ones are refused: no key has more than 250 B, and many special characters take long to
// match.
inline constexpr size_t kMostPatternBytes = 1024;
inline constexpr std::string_view kPatternTooLong = "ERR a pattern has at most 1024 bytes here";

// Cost: linear in most patterns; at most proportional to the lengths of both.
bool MatchesGlob(std::string_view pattern, std::string_view text);

// What every text that matches starts with.
std::string LiteralPrefix(std::string_view pattern);

}  // namespace gossamer::gateway
