// Human-readable sizes, counts, rates and durations, for summaries and progress lines.
//
// Not for parsing: programs that parse output use JSON.
#pragma once

#include <cstdint>
#include <string>

namespace gossamer {

// "512 B", "1.5 KiB", "24.0 MiB", "1.00 GiB": three digits, powers of 1024.
std::string HumanBytes(uint64_t bytes);

// "1 MiB", "1536 KiB", "1000 B": exactly, in the largest unit that gives a whole number.
std::string ExactBytes(uint64_t bytes);

// With `decimals` digits behind the point: "12.30".
std::string FixedDecimals(double value, int decimals);

// "1,234,567"
std::string HumanCount(uint64_t count);

// "950/s", "12.3 k/s", "1.20 M/s"; with a unit: "1.20 M keys/s".
std::string HumanRate(double per_second, const std::string& unit = {});

// "1.52 µs", "340 ms", "12.3 s", "4 min 05 s", "2 h 10 min".
std::string HumanDuration(double seconds);

// "1 key", "1,234 keys": `plural` is `unit` + "s" unless given.
std::string HumanQuantity(uint64_t count, const std::string& unit, const std::string& plural = {});

}  // namespace gossamer
