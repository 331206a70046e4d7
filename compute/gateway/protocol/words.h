// Words of requests, as Redis takes them: names, numbers, blanks.
#pragma once

#include <algorithm>
#include <cassert>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace gossamer::gateway {

constexpr char LowerCase(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Whether `a` is `lower`, letters of either case alike. Requires: `lower` has no capitals.
inline bool IsWord(std::string_view a, std::string_view lower) {
  assert(std::ranges::equal(lower, lower, {}, LowerCase));
  return std::ranges::equal(a, lower, {}, LowerCase);
}

inline constexpr std::string_view kSyntaxError = "ERR syntax error";
// The answer to what ParseInteger does not take.
inline constexpr std::string_view kNoInteger = "ERR value is not an integer or out of range";

// A decimal number of 64 bits: no blanks, no plus sign, no leading zeros, no -0.
inline std::optional<int64_t> ParseInteger(std::string_view text) {
  int64_t number = 0;
  const auto [behind, failure] = std::from_chars(text.begin(), text.end(), number);
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool has_zeros = digits.starts_with('0') && text != "0";
  if (failure != std::errc() || behind != text.end() || has_zeros) return std::nullopt;
  return number;
}

constexpr bool IsBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace gossamer::gateway
