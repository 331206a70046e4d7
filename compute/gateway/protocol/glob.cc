#include "compute/gateway/protocol/glob.h"

#include <algorithm>
#include <optional>

namespace gossamer::gateway {
namespace {

// Matches one character that is no `*`. Returns the rest of the pattern; nullopt if `c` does not
// match.
std::optional<std::string_view> MatchOne(std::string_view pattern, char c) {
  const auto byte = [](char a) { return static_cast<unsigned char>(a); };
  if (pattern[0] == '?') return pattern.substr(1);
  if (pattern[0] != '[') {
    const size_t at = pattern[0] == '\\' && pattern.size() > 1 ? 1 : 0;
    if (pattern[at] != c) return std::nullopt;
    return pattern.substr(at + 1);
  }
  size_t at = 1;
  const bool is_negated = at < pattern.size() && pattern[at] == '^';
  if (is_negated) ++at;
  bool is_in = false;
  for (; at < pattern.size() && pattern[at] != ']'; ++at) {
    if (pattern[at] == '\\' && at + 1 < pattern.size()) {
      ++at;
      is_in = is_in || pattern[at] == c;
    } else if (at + 2 < pattern.size() && pattern[at + 1] == '-') {
      const auto [low, high] = std::minmax({byte(pattern[at]), byte(pattern[at + 2])});
      is_in = is_in || (low <= byte(c) && byte(c) <= high);
      at += 2;
    } else {
      is_in = is_in || pattern[at] == c;
    }
  }
  if (is_in == is_negated) return std::nullopt;
  return pattern.substr(at < pattern.size() ? at + 1 : at);
}

}  // namespace

// Only the last `*` need be tried again: whatever an earlier one could take, the last one can take,
// too.
bool MatchesGlob(std::string_view pattern, std::string_view text) {
  std::optional<std::string_view> behind_star;
  std::string_view at_star;
  for (;;) {
    if (!pattern.empty() && pattern[0] == '*') {
      behind_star = pattern = pattern.substr(1);
      at_star = text;
      continue;
    }
    std::optional<std::string_view> rest;
    if (pattern.empty()) {
      if (text.empty()) return true;
    } else if (!text.empty()) {
      rest = MatchOne(pattern, text[0]);
    }
    if (rest) {
      pattern = *rest;
      text = text.substr(1);
      continue;
    }
    if (!behind_star || at_star.empty()) return false;
    at_star = at_star.substr(1);
    text = at_star;
    pattern = *behind_star;
  }
}

std::string LiteralPrefix(std::string_view pattern) {
  std::string prefix;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const char c = pattern[at];
    if (c == '*' || c == '?' || c == '[') break;
    if (c == '\\' && at + 1 < pattern.size()) ++at;
    prefix += pattern[at];
  }
  return prefix;
}

}  // namespace gossamer::gateway
