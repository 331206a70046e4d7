#include "compute/gateway/eviction/victim_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gossamer::gateway {
namespace {

constexpr uint64_t kCandidates = 800;

std::vector<EvictionCandidate> Candidates() {
  std::vector<EvictionCandidate> candidates;
  for (uint64_t key = 0; key < kCandidates; ++key) {
    EvictionCandidate& one = candidates.emplace_back();
    one.key_hash = key;
    one.bytes = 100;
  }
  return candidates;
}

size_t CountChosen(const std::vector<EvictionCandidate>& candidates) {
  return static_cast<size_t>(std::ranges::count(candidates, true, &EvictionCandidate::goes));
}

// Each candidate is hotter than those before it.
void UseInOrder(KeyHeat& heat) {
  for (uint64_t key = 0; key < kCandidates; ++key) {
    heat.Use(key);
    heat.Advance(100, 100);
  }
}

TEST(VictimChoiceTest, OfKeysThatExpireTheSoonestGo) {
  std::vector<EvictionCandidate> candidates = Candidates();
  RecentColdness recent;
  for (uint64_t key = 0; key < kCandidates; key += 2) {
    candidates[key].expiry = Expiry::At(1'000'000 - key);
  }
  VictimChoice choice(nullptr, recent, {.now_ms = 1000}, 1);
  choice.Choose(candidates);
  EXPECT_EQ(CountChosen(candidates), 50u) << "an eighth of 400";
  for (uint64_t key = 0; key < kCandidates; ++key) {
    EXPECT_EQ(candidates[key].goes, key % 2 == 0 && key > 700 - 2) << key;
  }
  EXPECT_TRUE(choice.StillGoes(798, Expiry::At(1'000'000 - 798)));
  EXPECT_FALSE(choice.StillGoes(798, Expiry::At(2'000'000))) << "it lives longer now";
  EXPECT_FALSE(choice.StillGoes(798, Expiry::Never())) << "it lives for ever now";
}

TEST(VictimChoiceTest, NothingGoesThatDoesNotExpire) {
  std::vector<EvictionCandidate> candidates = Candidates();
  RecentColdness recent;
  VictimChoice choice(nullptr, recent, {}, 1);
  choice.Choose(candidates);
  EXPECT_EQ(CountChosen(candidates), 0u);
}

TEST(VictimChoiceTest, TheColdestGo) {
  KeyHeat heat(1 << 20, 1);
  UseInOrder(heat);
  std::vector<EvictionCandidate> candidates = Candidates();
  RecentColdness recent;
  VictimChoice choice(&heat, recent, {}, 1);
  choice.Choose(candidates);
  // An eighth of each group, to within one.
  EXPECT_NEAR(static_cast<double>(CountChosen(candidates)), 100, KeyHeat::kGroups);
  for (const EvictionCandidate& one : candidates) {
    if (!one.goes) continue;
    for (const EvictionCandidate& other : candidates) {
      const bool is_colder = heat.GroupOf(other.key_hash) == heat.GroupOf(one.key_hash) &&
                             heat.ColdnessOf(other.key_hash) > heat.ColdnessOf(one.key_hash);
      EXPECT_TRUE(!is_colder || other.goes) << other.key_hash << " is colder";
    }
  }
}

TEST(VictimChoiceTest, WhatIsUsedMeanwhileStays) {
  KeyHeat heat(1 << 20, 1);
  UseInOrder(heat);
  std::vector<EvictionCandidate> candidates = Candidates();
  RecentColdness recent;
  VictimChoice choice(&heat, recent, {}, 1);
  choice.Choose(candidates);
  for (const EvictionCandidate& one : candidates) {
    if (!one.goes) continue;
    EXPECT_TRUE(choice.StillGoes(one.key_hash, {}));
    heat.Refresh(one.key_hash);
    EXPECT_FALSE(choice.StillGoes(one.key_hash, {})) << "it was put again";
  }
}

TEST(VictimChoiceTest, UnknownKeysAreTheColdest) {
  KeyHeat heat(1 << 20, 1);
  for (uint64_t key = 0; key < kCandidates / 2; ++key) heat.Use(key);
  std::vector<EvictionCandidate> candidates = Candidates();
  RecentColdness recent;
  VictimChoice(&heat, recent, {}, 1).Choose(candidates);
  EXPECT_NEAR(static_cast<double>(CountChosen(candidates)), 100, 1);
  for (uint64_t key = 0; key < kCandidates / 2; ++key) EXPECT_FALSE(candidates[key].goes);
}

TEST(VictimChoiceTest, OthersKeepNearlyAllOfTheirKeys) {
  KeyHeat heat(1 << 20, 1);
  UseInOrder(heat);
  std::vector<EvictionCandidate> candidates = Candidates();
  RecentColdness recent;
  for (uint64_t key = 0; key < kCandidates / 2; ++key) candidates[key].is_own = false;
  VictimChoice(&heat, recent, {.compute_servers = 2}, 1).Choose(candidates);
  const auto middle = candidates.begin() + kCandidates / 2;
  EXPECT_NEAR(std::count_if(candidates.begin(), middle, [](auto& one) { return one.goes; }),
              400.0 / 64, 1);
  EXPECT_NEAR(std::count_if(middle, candidates.end(), [](auto& one) { return one.goes; }), 50,
              KeyHeat::kGroups);
}

TEST(VictimChoiceTest, OneWithFewKeysTakesThoseOfOthers) {
  KeyHeat heat(1 << 20, 1);
  for (uint64_t key = 0; key < kCandidates; ++key) heat.Use(key);
  std::vector<EvictionCandidate> candidates = Candidates();
  RecentColdness recent;
  for (uint64_t key = 100; key < kCandidates; ++key) candidates[key].is_own = false;
  VictimChoice(&heat, recent, {.compute_servers = 2}, 1).Choose(candidates);
  EXPECT_NEAR(static_cast<double>(CountChosen(candidates)), 100, 1);
  for (uint64_t key = 0; key < 100; ++key) EXPECT_FALSE(candidates[key].goes) << key;
}

TEST(VictimChoiceTest, BlocksOfTheSizeThatIsWantedComeFirst) {
  KeyHeat heat(1 << 20, 1);
  std::vector<EvictionCandidate> candidates = Candidates();
  RecentColdness recent;
  for (uint64_t key = 0; key < kCandidates; ++key) candidates[key].block_bytes = key % 4 * 64;
  const std::vector<uint64_t> wanted{64, 192};
  VictimChoice(&heat, recent, {.wanted_blocks = wanted}, 1).Choose(candidates);
  EXPECT_NEAR(static_cast<double>(CountChosen(candidates)), 50, 1);
  for (uint64_t key = 0; key < kCandidates; key += 2) EXPECT_FALSE(candidates[key].goes) << key;
}

TEST(VictimChoiceTest, WhatHasExpiredGoesInAnyCase) {
  std::vector<EvictionCandidate> candidates = Candidates();
  RecentColdness recent;
  for (EvictionCandidate& one : candidates) one.expiry = Expiry::At(500);
  VictimChoice(nullptr, recent, {.now_ms = 500}, 1).Choose(candidates);
  EXPECT_EQ(CountChosen(candidates), kCandidates);
}

}  // namespace
}  // namespace gossamer::gateway
