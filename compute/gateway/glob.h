// Patterns of KEYS and SCAN MATCH, as Redis has them: `*`, `?`, `[a-z]`, `[^a]`, and `\` in front of any of these.
#pragma once

#include <string>
#include <string_view>

namespace gossamer::gateway {

// Cost: linear in most patterns; at most proportional to the lengths of both.
bool MatchesGlob(std::string_view pattern, std::string_view text);

// What every text that matches starts with.
std::string LiteralPrefix(std::string_view pattern);

}  // namespace gossamer::gateway
