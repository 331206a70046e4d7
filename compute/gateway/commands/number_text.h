// Floating-point numbers as Redis reads and prints them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gossamer::gateway {

// nullopt: it is none, or NaN, or out of range.
std::optional<long double> ParseFloat(std::string_view text);
// 17 digits behind the point at most, without zeros at the end.
std::string FloatText(long double number);

inline constexpr std::string_view kNoFloat = "ERR value is not a valid float";
inline constexpr std::string_view kOverflow = "ERR increment or decrement would overflow";
inline constexpr std::string_view kHashValueNoInteger = "ERR hash value is not an integer";
inline constexpr std::string_view kHashValueNoFloat = "ERR hash value is not a float";
inline constexpr std::string_view kNan = "ERR increment would produce NaN or Infinity";

}  // namespace gossamer::gateway
