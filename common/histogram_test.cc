#include "common/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/random.h"

namespace gossamer {
namespace {

// Numbers of every magnitude, as latencies are.
uint64_t AnyMagnitude(Random& random) { return random.Next() >> random.Below(64); }

uint64_t ExactPercentile(const std::vector<uint64_t>& sorted, double percent) {
  const auto rank =
      static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

TEST(HistogramTest, BucketsCoverAllNumbersInOrderAndWithinTheError) {
  uint64_t lowest = 0;
  for (uint32_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
    const uint64_t highest = Histogram::UpperBound(bucket);
    ASSERT_EQ(Histogram::BucketOf(lowest), bucket);
    ASSERT_EQ(Histogram::BucketOf(highest), bucket);
    ASSERT_LE(highest - lowest, lowest / 64) << "bucket " << bucket;
    lowest = highest + 1;
  }
  EXPECT_EQ(lowest, 0u);  // wrapped: the last bucket ends at the greatest number
}

TEST(HistogramTest, EmptyIsAllZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.min(), 0u);
  EXPECT_EQ(histogram.max(), 0u);
  EXPECT_EQ(histogram.Mean(), 0.0);
  EXPECT_EQ(histogram.Percentile(99), 0u);
}

TEST(HistogramTest, OneValueIsEveryPercentile) {
  Histogram histogram;
  histogram.Record(123'456'789);
  for (const double percent : {0.0, 50.0, 99.9, 100.0}) {
    EXPECT_EQ(histogram.Percentile(percent), 123'456'789u);
  }
}

TEST(HistogramTest, PercentilesStayWithinTheError) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    Histogram histogram;
    std::vector<uint64_t> values(1 + random.Below(5'000));
    for (uint64_t& value : values) histogram.Record(value = AnyMagnitude(random) >> 8);
    std::sort(values.begin(), values.end());
    uint64_t last = 0;
    for (const double percent : {0.0, 1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
      const uint64_t exact = ExactPercentile(values, percent);
      const uint64_t measured = histogram.Percentile(percent);
      ASSERT_GE(measured, exact);
      ASSERT_LE(measured - exact, exact / 64);
      ASSERT_GE(measured, last);
      last = measured;
    }
    EXPECT_EQ(histogram.min(), values.front());
    EXPECT_EQ(histogram.max(), values.back());
    EXPECT_EQ(histogram.Percentile(100), values.back());
  }
}

TEST(HistogramTest, MergedEqualsRecordedTogether) {
  Random random(5);
  Histogram parts[3];
  Histogram whole;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t value = AnyMagnitude(random);
    parts[random.Below(3)].Record(value);
    whole.Record(value);
  }
  Histogram merged;
  for (const Histogram& part : parts) merged.Merge(part);
  EXPECT_EQ(merged.count(), whole.count());
  EXPECT_EQ(merged.sum(), whole.sum());
  EXPECT_EQ(merged.min(), whole.min());
  EXPECT_EQ(merged.max(), whole.max());
  for (double percent = 0; percent <= 100; percent += 0.5) {
    EXPECT_EQ(merged.Percentile(percent), whole.Percentile(percent));
  }
}

TEST(HistogramTest, IsWhatItWasTakenApartFrom) {
  Random random(4);
  for (const int values : {0, 1, 2, 10'000}) {
    Histogram whole;
    for (int i = 0; i < values; ++i) whole.Record(AnyMagnitude(random));
    const std::optional<Histogram> again = Histogram::Assemble(whole.Parts());
    ASSERT_TRUE(again) << values;
    EXPECT_EQ(again->count(), whole.count());
    EXPECT_EQ(again->sum(), whole.sum());
    EXPECT_EQ(again->min(), whole.min());
    EXPECT_EQ(again->max(), whole.max());
    for (double percent = 0; percent <= 100; percent += 0.5) {
      EXPECT_EQ(again->Percentile(percent), whole.Percentile(percent));
    }
  }
}

TEST(HistogramTest, PartsOfNoHistogramAreRefused) {
  const HistogramParts good{
      .counts = {{5, 2}, {700, 1}}, .sum = 0, .min = 5, .max = Histogram::UpperBound(700)};
  EXPECT_TRUE(Histogram::Assemble(good));
  const auto refused = [&good](auto change) {
    HistogramParts parts = good;
    change(parts);
    return !Histogram::Assemble(parts);
  };
  EXPECT_TRUE(refused([](HistogramParts& parts) { parts.counts.clear(); }));
  EXPECT_TRUE(refused([](HistogramParts& parts) { parts.counts[1].first = 5; }));
  EXPECT_TRUE(refused([](HistogramParts& parts) { parts.counts[1].first = Histogram::kBuckets; }));
  EXPECT_TRUE(refused([](HistogramParts& parts) { parts.counts[0].second = 0; }));
  EXPECT_TRUE(refused([](HistogramParts& parts) { parts.min = 6; }));
  EXPECT_TRUE(refused([](HistogramParts& parts) { parts.max = 5; }));
}

TEST(HistogramTest, RecordManyEqualsRecordingEach) {
  Histogram one_by_one;
  Histogram at_once;
  for (int i = 0; i < 1'000; ++i) one_by_one.Record(777);
  at_once.RecordMany(777, 1'000);
  at_once.RecordMany(1, 0);
  EXPECT_EQ(at_once.count(), one_by_one.count());
  EXPECT_EQ(at_once.sum(), one_by_one.sum());
  EXPECT_EQ(at_once.min(), one_by_one.min());
  EXPECT_EQ(at_once.Percentile(50), one_by_one.Percentile(50));
}

}  // namespace
}  // namespace gossamer
