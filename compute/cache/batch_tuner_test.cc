#include "compute/cache/batch_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "common/random.h"
#include "common/testing/seed.h"

namespace gossamer {
namespace {

using std::chrono::nanoseconds;

// Nanoseconds for a key that is traversed in batches of `size`.
using CostOfKey = std::function<double(uint32_t size)>;

constexpr uint32_t kSettling = BatchTuner::kWindow * BatchTuner::kSizes.size();

// Tunes chunks of `keys` whose traversal costs what `cost` says. Returns how many chunks had each
// size.
std::map<uint32_t, uint32_t> Tune(BatchTuner& tuner, size_t keys, uint32_t chunks,
                                  const CostOfKey& cost) {
  std::map<uint32_t, uint32_t> sizes;
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const BatchTuner::Choice choice = tuner.Next(keys);
    ++sizes[choice.size];
    if (!choice.is_trial) continue;
    const double took = cost(choice.size) * static_cast<double>(keys);
    tuner.Report(choice, nanoseconds(static_cast<int64_t>(took)));
  }
  return sizes;
}

// The size that chunks of `keys` get now, if they are no trials.
uint32_t SizeOf(BatchTuner& tuner, size_t keys, const CostOfKey& cost) {
  for (;;) {
    const BatchTuner::Choice choice = tuner.Next(keys);
    if (!choice.is_trial) return choice.size;
    tuner.Report(choice, nanoseconds(static_cast<int64_t>(cost(choice.size) * 100)));
  }
}

// Where one size is the best, and others cost the more the further away they are.
CostOfKey BestAt(uint32_t best) {
  return [best](uint32_t size) { return size > best ? 100.0 * size / best : 100.0 * best / size; };
}

TEST(BatchTunerTest, FindsTheBestSize) {
  for (const uint32_t best : BatchTuner::kSizes) {
    BatchTuner tuner;
    Tune(tuner, kMaxGroup, kSettling, BestAt(best));
    EXPECT_EQ(SizeOf(tuner, kMaxGroup, BestAt(best)), best);
  }
}

TEST(BatchTunerTest, DoesNotBatchWhereBatchingLoses) {
  BatchTuner tuner;
  const CostOfKey cost = [](uint32_t size) { return 100.0 + size; };
  Tune(tuner, 20, kSettling, cost);
  EXPECT_EQ(SizeOf(tuner, 20, cost), 1);
}

// Sizes above a chunk's length are one size: the chunk as a whole.
TEST(BatchTunerTest, TunesChunksThatAreShorterThanMostSizes) {
  for (const size_t keys : {2, 5, 12, 31}) {
    BatchTuner tuner;
    const CostOfKey cost = [](uint32_t size) { return 1000.0 / size; };
    Tune(tuner, keys, kSettling, cost);
    EXPECT_GE(SizeOf(tuner, keys, cost), keys) << keys;
  }
}

TEST(BatchTunerTest, AKeyAloneIsNoTrial) {
  BatchTuner tuner;
  for (uint32_t i = 0; i < 10 * BatchTuner::kTrialEvery; ++i) {
    const BatchTuner::Choice choice = tuner.Next(1);
    EXPECT_EQ(choice.size, 1);
    EXPECT_FALSE(choice.is_trial);
  }
}

TEST(BatchTunerTest, ChunksOfOtherLengthsKeepTheirSize) {
  BatchTuner tuner;
  for (uint32_t i = 0; i < kSettling; ++i) {
    Tune(tuner, 4, 1, BestAt(1));
    Tune(tuner, 64, 1, BestAt(32));
  }
  EXPECT_EQ(SizeOf(tuner, 4, BestAt(1)), 1);
  EXPECT_EQ(SizeOf(tuner, 64, BestAt(32)), 32);
}

TEST(BatchTunerTest, FollowsAChangeOfWorkload) {
  BatchTuner tuner;
  Tune(tuner, 64, 100 * kSettling, BestAt(64));
  Tune(tuner, 64, kSettling * BatchTuner::kTrialEvery, BestAt(8));
  EXPECT_EQ(SizeOf(tuner, 64, BestAt(8)), 8);
}

TEST(BatchTunerTest, TrialsAreFew) {
  constexpr uint32_t kChunks = 64'000;
  BatchTuner tuner;
  Tune(tuner, 64, kSettling, BestAt(64));
  const std::map<uint32_t, uint32_t> sizes = Tune(tuner, 64, kChunks, BestAt(64));
  uint32_t others = 0;
  for (const auto& [size, chunks] : sizes) others += size == 64 ? 0 : chunks;
  EXPECT_GT(others, 0u);
  EXPECT_LE(others, kChunks / BatchTuner::kTrialEvery);
}

// A thread that loses its processor in a trial takes a thousand times as long. Clocks vary.
TEST(BatchTunerTest, OutliersAndNoiseDoNotMislead) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  Random random(seed);
  const CostOfKey cost = [&random](uint32_t size) {
    const double noise = 0.9 + 0.2 * static_cast<double>(random.Below(1000)) / 1000;
    return (random.Below(10) == 0 ? 1000 : 1) * noise * BestAt(32)(size);
  };
  BatchTuner tuner;
  constexpr uint32_t kChunks = 100'000;
  const std::map<uint32_t, uint32_t> sizes = Tune(tuner, 64, kChunks, cost);
  EXPECT_GT(sizes.at(32), kChunks * 9 / 10);
}

}  // namespace
}  // namespace gossamer
