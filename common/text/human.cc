#include "common/text/human.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <span>

namespace gossamer {
namespace {

constexpr std::array<const char*, 6> kUnitNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

// Three significant digits: "1.00", "12.3", "340". Rounding may carry ("9.995" gives "10.0").
std::string ThreeDigits(double value) {
  return FixedDecimals(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

// In the first of `units`, each `step` times the one before, that gives less than four digits.
std::string Scaled(double value, double step, std::span<const char* const> units) {
  size_t unit = 0;
  while (value >= step - 0.5 && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return ThreeDigits(value) + " " + units[unit];
}

std::string TwoParts(uint64_t large, const char* large_unit, uint64_t small,
                     const char* small_unit) {
  return fmt::format("{} {} {:02} {}", large, large_unit, small, small_unit);
}

}  // namespace

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  return Scaled(static_cast<double>(bytes) / 1024, 1024, kUnitNames);
}

std::string ExactBytes(uint64_t bytes) {
  size_t units = 0;
  while (bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++units;
  }
  return fmt::format("{} {}", bytes, units == 0 ? "B" : kUnitNames[units - 1]);
}

std::string FixedDecimals(double value, int decimals) {
  return fmt::format("{:.{}f}", value, decimals);
}

std::string HumanCount(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, ",");
  return text;
}

std::string HumanRate(double per_second, const std::string& unit) {
  const std::string tail = unit.empty() ? "/s" : " " + unit + "/s";
  if (!std::isfinite(per_second) || per_second < 0) return "?" + tail;
  if (per_second < 999.5) return ThreeDigits(per_second) + tail;
  constexpr std::array<const char*, 3> kScales = {"k", "M", "G"};
  return Scaled(per_second / 1000, 1000, kScales) + tail;
}

std::string HumanDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 999.5e-9) return ThreeDigits(seconds * 1e9) + " ns";
  if (seconds < 999.5e-6) return ThreeDigits(seconds * 1e6) + " µs";
  if (seconds < 999.5e-3) return ThreeDigits(seconds * 1e3) + " ms";
  if (seconds < 99.95) return ThreeDigits(seconds) + " s";
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  if (whole < 3600) return TwoParts(whole / 60, "min", whole % 60, "s");
  return TwoParts(whole / 3600, "h", whole % 3600 / 60, "min");
}

std::string HumanQuantity(uint64_t count, const std::string& unit, const std::string& plural) {
  if (count == 1) return "1 " + unit;
  return HumanCount(count) + " " + (plural.empty() ? unit + "s" : plural);
}

}  // namespace gossamer
