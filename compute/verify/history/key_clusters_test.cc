#include "compute/verify/history/key_clusters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "common/random.h"
#include "compute/verify/history/data.h"

namespace gossamer::history {
namespace {

constexpr uint32_t kLengths[] = {33, 34, 64, 249, 250};

size_t Shared(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

TEST(KeyClustersTest, KeysAreInOrderAndFound) {
  for (const uint32_t max_key_bytes : kLengths) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const KeySpace keys(seed % 4 == 0 ? 3 : 600, max_key_bytes, seed);
      std::string last;
      for (uint32_t key = 0; key < keys.size(); ++key) {
        const std::string text = keys.Text(key);
        ASSERT_LT(last, text) << "seed " << seed << ", key " << key;
        ASSERT_GE(text.size(), 4u);
        ASSERT_LE(text.size(), max_key_bytes);
        ASSERT_EQ(keys.Number(text), key) << "seed " << seed;
        last = text;
      }
      EXPECT_LT(last, "\xff\xff\xff\xff\xff");
      EXPECT_EQ(keys.Number(keys.Text(keys.size())), std::nullopt);
    }
  }
}

TEST(KeyClustersTest, OtherTextsAreNoKeys) {
  Random random(7);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const KeySpace keys(300, 250, seed);
    std::set<std::string> texts;
    for (uint32_t key = 0; key < keys.size(); ++key) texts.insert(keys.Text(key));
    for (const std::string& text : texts) {
      std::string changed = text;
      char& byte = changed[random.Below(changed.size())];
      byte = static_cast<char>(byte ^ (1 + random.Below(255)));
      for (const std::string& other :
           {changed, text + '\0', text + '\xff', text.substr(0, text.size() - 1),
            text.substr(0, random.Below(text.size()))}) {
        ASSERT_EQ(keys.Number(other).has_value(), texts.contains(other)) << "seed " << seed;
      }
    }
  }
}

TEST(KeyClustersTest, ManyKeysAndTheirNumbersFit) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const KeySpace keys(kMaxKeys / 2, 250, seed);
    Random random(seed);
    for (int i = 0; i < 2'000; ++i) {
      const auto key = static_cast<uint32_t>(random.Below(keys.size() - 1));
      const std::string text = keys.Text(key);
      ASSERT_LT(text, keys.Text(key + 1));
      ASSERT_EQ(keys.Number(text), key);
    }
  }
}

// What is hard for a tree comes about: within twenty spaces of a few hundred keys.
TEST(KeyClustersTest, NeighboursShareFromNothingToAlmostEverything) {
  std::set<size_t> shared;
  std::set<size_t> lengths;
  bool has_prefix_of_next = false;
  bool has_zero_behind = false;
  bool has_long_run = false;
  bool has_last_bytes[2] = {};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const KeySpace keys(600, 250, seed);
    uint32_t run = 0;
    for (uint32_t key = 0; key + 1 < keys.size(); ++key) {
      const std::string text = keys.Text(key);
      const std::string next = keys.Text(key + 1);
      const size_t both = Shared(text, next);
      shared.insert(both);
      lengths.insert(text.size());
      has_prefix_of_next = has_prefix_of_next || both == text.size();
      has_zero_behind = has_zero_behind || next == text + '\0';
      const bool differs_at_the_end = both == 249 && text.size() == 250 && next.size() == 250;
      has_last_bytes[0] = has_last_bytes[0] || (differs_at_the_end && text.back() == '\0');
      has_last_bytes[1] = has_last_bytes[1] || (differs_at_the_end && next.back() == '\xff');
      run = both > 200 ? run + 1 : 0;
      has_long_run = has_long_run || run > 100;
    }
  }
  EXPECT_TRUE(has_prefix_of_next && has_zero_behind && has_long_run);
  EXPECT_TRUE(has_last_bytes[0] && has_last_bytes[1]);
  EXPECT_EQ(*shared.begin(), 0u);
  EXPECT_EQ(*shared.rbegin(), 249u);
  EXPECT_GT(shared.size(), 100u);
  EXPECT_EQ(*lengths.begin(), 4u);
  EXPECT_EQ(*lengths.rbegin(), 250u);
}

TEST(KeyClustersTest, SeedsMakeDifferentSpaces) {
  std::set<std::string> firsts;
  for (uint64_t seed = 0; seed < 30; ++seed) firsts.insert(KeySpace(30, 250, seed).Text(20));
  EXPECT_GT(firsts.size(), 20u);
}

}  // namespace
}  // namespace gossamer::history
