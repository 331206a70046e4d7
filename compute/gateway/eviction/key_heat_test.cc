#include "compute/gateway/eviction/key_heat.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace gossamer::gateway {
namespace {

constexpr uint64_t kTable = uint64_t{1} << 20;
constexpr uint64_t kKeys = 1000;

// The first number from `from` on that is in the group.
uint64_t KeyOf(const KeyHeat& heat, size_t group, uint64_t from) {
  while (heat.GroupOf(from) != group) ++from;
  return from;
}

int ColdnessOf(const KeyHeat& heat, uint64_t key) {
  const std::optional<int> coldness = heat.ColdnessOf(key);
  EXPECT_TRUE(coldness) << key;
  return coldness.value_or(0);
}

TEST(KeyHeatTest, KnowsWhatWasUsed) {
  KeyHeat heat(kTable, 1);
  EXPECT_FALSE(heat.ColdnessOf(7));
  EXPECT_FALSE(heat.Use(7));
  EXPECT_TRUE(heat.Use(7));
  EXPECT_TRUE(heat.ColdnessOf(7));
  EXPECT_FALSE(heat.ColdnessOf(8));
}

TEST(KeyHeatTest, EachHalfLifeCostsHalfOfTheHeat) {
  KeyHeat heat(kTable, 1);
  for (size_t group = 0; group < KeyHeat::kLeaders; ++group) {
    const uint64_t key = KeyOf(heat, group, 0);
    heat.Use(key);
    EXPECT_EQ(ColdnessOf(heat, key), 0);
    heat.Use(key);
    EXPECT_EQ(ColdnessOf(heat, key), -KeyHeat::kSteps) << "two uses";
    const auto uses = static_cast<uint64_t>(KeyHeat::kHalfLives[group] * kKeys);
    heat.Advance(uses, kKeys);
    EXPECT_NEAR(ColdnessOf(heat, key), 0, 1) << "two uses, a half-life ago";
    heat.Advance(uses, kKeys);
    EXPECT_NEAR(ColdnessOf(heat, key), KeyHeat::kSteps, 1);
    heat.Use(key);
    // Half a use is left of the two, and one is added.
    EXPECT_NEAR(ColdnessOf(heat, key), -9, 1) << "log2(1.5) of 16 steps";
  }
}

TEST(KeyHeatTest, APutAfterAMissAddsNothing) {
  KeyHeat heat(kTable, 1);
  heat.Use(5);
  heat.Refresh(5);
  EXPECT_EQ(ColdnessOf(heat, 5), 0);
  heat.Use(5);
  heat.Refresh(5);
  EXPECT_EQ(ColdnessOf(heat, 5), -KeyHeat::kSteps);
  heat.Advance(1'000'000, kKeys);
  heat.Refresh(5);
  EXPECT_EQ(ColdnessOf(heat, 5), 0);
  heat.Refresh(6);
  EXPECT_EQ(ColdnessOf(heat, 6), 0);
}

TEST(KeyHeatTest, InAFullBucketTheColdestGivesWay) {
  KeyHeat heat(4096, 1);  // 1,024 keys
  for (uint64_t key = 0; key < 10; ++key) {
    for (int times = 0; times < 20; ++times) heat.Use(key);
  }
  for (uint64_t key = 1000; key < 20'000; ++key) heat.Use(key);
  for (uint64_t key = 0; key < 10; ++key) EXPECT_TRUE(heat.ColdnessOf(key)) << key;
}

TEST(KeyHeatTest, FollowsTheLeaderWithTheFewestMisses) {
  for (size_t best = 0; best < KeyHeat::kLeaders; ++best) {
    KeyHeat heat(kTable, 1);
    for (int round = 0; round < 200; ++round) {
      for (size_t group = 0; group < KeyHeat::kLeaders; ++group) {
        const uint64_t key = KeyOf(heat, group, 0);
        for (int misses = 0; misses < (group == best ? 5 : 10); ++misses) heat.Missed(key);
      }
      heat.Advance(kKeys, kKeys);
    }
    EXPECT_EQ(heat.half_life(), KeyHeat::kHalfLives[best]);
  }
}

TEST(KeyHeatTest, ForgetsBeforeTheClockComesAround) {
  KeyHeat heat(kTable, 1);
  constexpr uint64_t kCount = 200;
  for (uint64_t key = 0; key < kCount; ++key) heat.Use(key);
  // 5,000 half-lives of the shortest one.
  for (int i = 0; i < 1250; ++i) {
    heat.Advance(kKeys, kKeys);
    heat.Tend();
    for (uint64_t key = 0; key < kCount; ++key) {
      ASSERT_GE(heat.ColdnessOf(key).value_or(0), 0) << key << " became hot by itself";
    }
  }
  EXPECT_FALSE(heat.ColdnessOf(KeyOf(heat, 0, 0)));
}

TEST(KeyHeatTest, ThreadsMayUseItAtATime) {
  KeyHeat heat(kTable, 1);
  std::vector<std::thread> threads;
  for (uint64_t first = 0; first < 2; ++first) {
    threads.emplace_back([&heat, first] {
      for (uint64_t key = first; key < 20'000; ++key) {
        heat.Use(key % 500);
        heat.Refresh(key % 700);
        heat.Missed(key);
        heat.Advance(1, 500);
        if (key % 5000 == 0) heat.Tend();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t key = 0; key < 500; ++key) EXPECT_TRUE(heat.ColdnessOf(key));
}

TEST(KeyHeatTest, ItsTableFitsTheStore) {
  EXPECT_EQ(KeyHeat::BytesFor(uint64_t{64} << 20), uint64_t{4} << 20);
  EXPECT_EQ(KeyHeat::BytesFor(uint64_t{1} << 40), uint64_t{64} << 20);
  EXPECT_EQ(KeyHeat::BytesFor(1), 4096u);
}

}  // namespace
}  // namespace gossamer::gateway
