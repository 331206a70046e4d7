#include "common/random.h"

#include <gtest/gtest.h>

#include <array>

namespace gossamer {
namespace {

TEST(SplitMix64Test, IsThePublishedSequence) {
  SplitMix64 source(1234567);
  EXPECT_EQ(source.Next(), 6457827717110365317u);
  EXPECT_EQ(source.Next(), 3203168211198807973u);
  EXPECT_EQ(source.Next(), 9817491932198370423u);
}

TEST(RandomTest, SameSeedSameSequence) {
  Random a(7, 3);
  Random b(7, 3);
  Random other_stream(7, 4);
  Random other_seed(8, 3);
  uint64_t equal = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = a.Next();
    EXPECT_EQ(value, b.Next());
    equal += value == other_stream.Next();
    equal += value == other_seed.Next();
  }
  EXPECT_EQ(equal, 0u);
}

TEST(RandomTest, BelowIsUniform) {
  Random random(1);
  constexpr uint64_t kDraws = 1'000'000;
  constexpr size_t kBuckets = 100;
  std::array<uint64_t, kBuckets> counts{};
  for (uint64_t i = 0; i < kDraws; ++i) ++counts[random.Below(kBuckets)];
  double chi_square = 0;
  for (const uint64_t count : counts) {
    const double expected = double{kDraws} / kBuckets;
    const double difference = static_cast<double>(count) - expected;
    chi_square += difference * difference / expected;
  }
  EXPECT_LT(chi_square, 149.0);  // 99 degrees of freedom: exceeded by one seed in 1000
}

TEST(RandomTest, UnitLiesInItsRange) {
  Random random(2);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double value = random.Unit();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
}

}  // namespace
}  // namespace gossamer
