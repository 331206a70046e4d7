#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "compute/counters/session_counts.h"

namespace gossamer {
namespace {

RemotePtr LeafAt(uint64_t number) { return {ServerId{1}, number * 1024, 0}; }

TEST(LiveCountersTest, ReadsWhatWasCounted) {
  LiveCounters live;
  live.of(OperationClass::kScan) += WireCounts{1, 2, 3, 4, 5, 6, 7, 8};
  ++live.of(OperationClass::kScan).operations;
  live.cache.hits += 11;
  ++live.cache.filled;
  live.cache.along += 13;
  live.cache.along_right += 14;
  live.locks.combined += 12;
  ++live.rereads;
  const Counters counters = live.Read();
  const WireCounts& scans = counters.of(OperationClass::kScan);
  EXPECT_EQ(scans.operations, 2u);
  EXPECT_EQ(scans.round_trips, 2u);
  EXPECT_EQ(scans.reads, 3u);
  EXPECT_EQ(scans.writes, 4u);
  EXPECT_EQ(scans.atomics, 5u);
  EXPECT_EQ(scans.sends, 6u);
  EXPECT_EQ(scans.bytes_read, 7u);
  EXPECT_EQ(scans.bytes_written, 8u);
  EXPECT_EQ(counters.of(OperationClass::kRead).operations, 0u);
  EXPECT_EQ(counters.cache.hits, 11u);
  EXPECT_EQ(counters.cache.filled, 1u);
  EXPECT_EQ(counters.cache.along, 13u);
  EXPECT_EQ(counters.cache.along_right, 14u);
  EXPECT_EQ(counters.cache.bytes, 0u);
  EXPECT_EQ(counters.locks.combined, 12u);
  EXPECT_EQ(counters.rereads, 1u);
}

TEST(SessionCountsTest, KeepsWhatEndedSessionsHaveCounted) {
  SessionCounts counts;
  SessionFigures one;
  counts.Add(one);
  {
    SessionFigures other;
    counts.Add(other);
    one.counters.rereads += 3;
    other.counters.rereads += 4;
    EXPECT_EQ(counts.Total().rereads, 7u);
    EXPECT_EQ(counts.sessions(), 2u);
    counts.Remove(other);
  }
  EXPECT_EQ(counts.Total().rereads, 7u);
  EXPECT_EQ(counts.sessions(), 1u);
  counts.Remove(one);
}

// Sums that are read while sessions count never fall.
TEST(SessionCountsTest, IsReadWhileSessionsCount) {
  SessionCounts counts;
  SessionFigures session;
  counts.Add(session);
  std::atomic<bool> is_over = false;
  constexpr uint64_t kTimes = 300'000;
  std::thread thread([&] {
    for (uint64_t i = 0; i < kTimes; ++i) {
      ++session.counters.rereads;
      session.leaves.Use(LeafAt(i % 3 + 1), "key");
    }
    is_over = true;
  });
  uint64_t last = 0;
  while (!is_over) {
    const uint64_t now = counts.Total().rereads;
    EXPECT_GE(now, last);
    last = now;
    EXPECT_LE(counts.HotLeaves(10).size(), 3u);
  }
  thread.join();
  EXPECT_EQ(counts.Total().rereads, kTimes);
  counts.Remove(session);
}

TEST(LeafSketchTest, FindsTheHotLeavesAmongMany) {
  SessionCounts counts;
  SessionFigures one;
  SessionFigures two;
  counts.Add(one);
  counts.Add(two);
  // A tenth of the uses each, the first through single uses and the second in batches; the rest
  // goes to many leaves.
  constexpr uint64_t kUses = 200'000;
  for (uint64_t i = 0; i < kUses; ++i) {
    const uint64_t leaf = i % 10 == 0 ? 1 : 100 + i * 7919 % 10'000;
    one.leaves.Use(LeafAt(leaf), leaf == 1 ? "key:" + std::to_string(10 + i / 10 % 50) : "other");
  }
  for (uint64_t batch = 0; batch < kUses / 100; ++batch) {
    two.leaves.UseMany(
        100,
        [batch](size_t i) {
          return i % 10 == 3 ? LeafAt(2) : LeafAt(100 + (batch * 100 + i) * 7919 % 10'000);
        },
        [](size_t) { return KeyView("second"); });
  }
  const auto hot = counts.HotLeaves(2);
  ASSERT_EQ(hot.size(), 2u);
  EXPECT_THAT((std::vector{hot[0].leaf, hot[1].leaf}),
              testing::UnorderedElementsAre(LeafAt(1), LeafAt(2)));
  for (const LeafSketch::Leaf& leaf : hot) {
    // Space-Saving guesses too high, by at most a share of 1 / kPlaces of all samples.
    EXPECT_GT(leaf.operations, kUses / 20);
    EXPECT_LT(leaf.operations, kUses / 5);
    EXPECT_EQ(leaf.key, leaf.leaf == LeafAt(2) ? "second" : "key:10");
  }
  counts.Remove(one);
  EXPECT_EQ(counts.HotLeaves(1)[0].leaf, LeafAt(2));
  counts.Remove(two);
}

TEST(LeafSketchTest, ForgetsWhatWasHot) {
  LeafSketch sketch;
  const auto count_of = [&](RemotePtr leaf) {
    for (const LeafSketch::Leaf& one : sketch.Read()) {
      if (one.leaf == leaf) return one.operations;
    }
    return uint64_t{0};
  };
  const std::string long_key(300, 'b');
  for (int i = 0; i < 100'000; ++i) sketch.Use(LeafAt(1), "a");
  for (uint64_t i = 0; i < 8 * LeafSketch::kHalveAfter * LeafSketch::kMeanStep; ++i) {
    sketch.Use(LeafAt(2), long_key);
  }
  EXPECT_LT(count_of(LeafAt(1)), 100'000u / 100);
  EXPECT_GT(count_of(LeafAt(2)), 100'000u);
  // A leaf that is null is none.
  for (int i = 0; i < 1000; ++i) sketch.Use(RemotePtr(), "c");
  EXPECT_EQ(sketch.Read().size(), 2u);
  for (const LeafSketch::Leaf& one : sketch.Read())
    EXPECT_LE(one.key.size(), LeafSketch::kKeyBytes);
}

}  // namespace
}  // namespace gossamer
