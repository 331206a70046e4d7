#include "common/text/size_text.h"

#include <array>
#include <boost/algorithm/string/predicate.hpp>
#include <charconv>
#include <cmath>
#include <string>

namespace gossamer {
namespace {

struct Unit {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<Unit, 5> kUnits = {{{"B", 1},
                                         {"KiB", uint64_t{1} << 10},
                                         {"MiB", uint64_t{1} << 20},
                                         {"GiB", uint64_t{1} << 30},
                                         {"TiB", uint64_t{1} << 40}}};

// Returns 0 for an unknown suffix.
uint64_t UnitBytes(std::string_view suffix) {
  if (suffix.empty()) return 1;
  for (const Unit& unit : kUnits) {
    if (boost::iequals(suffix, unit.name) || boost::iequals(suffix, unit.name.substr(0, 1)))
      return unit.bytes;
  }
  return 0;
}

}  // namespace

Result<uint64_t> ParseSize(std::string_view text) {
  const Error error =
      MakeError(Code::kInvalidArgument,
                "'" + std::string(text) + "' is not a size: write 4096, 64MiB or 1.5GiB");
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  const uint64_t unit = digits == std::string_view::npos ? 1 : UnitBytes(text.substr(digits));
  if (number.empty() || unit == 0) return error;
  uint64_t whole = 0;
  const auto [end, status] = std::from_chars(number.begin(), number.end(), whole);
  if (status != std::errc()) return error;
  if (end == number.end()) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(whole, unit, &bytes)) return error;
    return bytes;
  }
  double value = 0;
  const auto [fraction_end, fraction_status] = std::from_chars(number.begin(), number.end(), value);
  const double bytes = value * static_cast<double>(unit);
  if (fraction_status != std::errc() || fraction_end != number.end() ||
      bytes != std::floor(bytes) || bytes >= std::ldexp(1.0, 63)) {
    return error;
  }
  return static_cast<uint64_t>(bytes);
}

Result<uint64_t> ParseSizeFlag(std::string_view name, std::string_view text, uint64_t least) {
  const Result<uint64_t> size = ParseSize(text);
  if (size && size.value() >= least) return size.value();
  return MakeError(Code::kInvalidArgument,
                   "--" + std::string(name) + ": " +
                       (size ? std::string(text) + " is too little" : size.error().message));
}

}  // namespace gossamer
