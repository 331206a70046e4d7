#include "common/text/human.h"

#include <gtest/gtest.h>

#include <limits>

namespace gossamer {
namespace {

TEST(Human, Bytes) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1024), "1.00 KiB");
  EXPECT_EQ(HumanBytes(1536), "1.50 KiB");
  EXPECT_EQ(HumanBytes((uint64_t{1} << 20) - 1), "1.00 MiB");
  EXPECT_EQ(HumanBytes(uint64_t{24} << 20), "24.0 MiB");
  EXPECT_EQ(HumanBytes(uint64_t{1} << 30), "1.00 GiB");
  EXPECT_EQ(HumanBytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(Human, ExactBytes) {
  EXPECT_EQ(ExactBytes(0), "0 B");
  EXPECT_EQ(ExactBytes(1000), "1000 B");
  EXPECT_EQ(ExactBytes(uint64_t{1} << 20), "1 MiB");
  EXPECT_EQ(ExactBytes((uint64_t{1} << 20) + 1024), "1025 KiB");
  EXPECT_EQ(ExactBytes(uint64_t{15} << 60), "15 EiB");
}

TEST(Human, FixedDecimals) {
  EXPECT_EQ(FixedDecimals(12.345, 1), "12.3");
  EXPECT_EQ(FixedDecimals(0.999, 2), "1.00");
  EXPECT_EQ(FixedDecimals(-2, 0), "-2");
  EXPECT_EQ(FixedDecimals(1e300, 0).size(), 301u);
}

TEST(Human, Count) {
  EXPECT_EQ(HumanCount(0), "0");
  EXPECT_EQ(HumanCount(999), "999");
  EXPECT_EQ(HumanCount(1000), "1,000");
  EXPECT_EQ(HumanCount(1234567), "1,234,567");
}

TEST(Human, Rate) {
  EXPECT_EQ(HumanRate(0), "0.00/s");
  EXPECT_EQ(HumanRate(999.4), "999/s");
  EXPECT_EQ(HumanRate(999.6), "1.00 k/s");
  EXPECT_EQ(HumanRate(1.2e6, "keys"), "1.20 M keys/s");
  EXPECT_EQ(HumanRate(std::numeric_limits<double>::infinity()), "?/s");
}

TEST(Human, Duration) {
  EXPECT_EQ(HumanDuration(1.5e-9), "1.50 ns");
  EXPECT_EQ(HumanDuration(1.52e-6), "1.52 µs");
  EXPECT_EQ(HumanDuration(0.34), "340 ms");
  EXPECT_EQ(HumanDuration(12.34), "12.3 s");
  EXPECT_EQ(HumanDuration(99.97), "1 min 40 s");
  EXPECT_EQ(HumanDuration(245), "4 min 05 s");
  EXPECT_EQ(HumanDuration(7800), "2 h 10 min");
  EXPECT_EQ(HumanDuration(-1), "?");
}

TEST(Human, Quantity) {
  EXPECT_EQ(HumanQuantity(0, "key"), "0 keys");
  EXPECT_EQ(HumanQuantity(1, "key"), "1 key");
  EXPECT_EQ(HumanQuantity(1234, "leaf", "leaves"), "1,234 leaves");
}

}  // namespace
}  // namespace gossamer
