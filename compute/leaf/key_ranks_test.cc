#include "compute/leaf/key_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "proto/test_support.h"

namespace gossamer {
namespace {

class KeyRanksTest : public test::SeededTest {
 protected:
  void ExpectRanks(const std::vector<std::string>& keys) {
    std::vector<Entry> entries;
    for (const std::string& key : keys) entries.push_back({key, "12345678"});
    RankScratch scratch;
    std::vector<uint32_t> ranks;
    RankByKey(entries, scratch, ranks);
    ASSERT_EQ(ranks.size(), keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto less = std::ranges::count_if(keys, [&](const auto& key) { return key < keys[i]; });
      ASSERT_EQ(ranks[i], static_cast<uint32_t>(less)) << i;
    }
  }
  // Distinct keys, in any order.
  std::vector<std::string> Keys(size_t count, uint32_t most_bytes, const std::string& prefix) {
    std::set<std::string> keys;
    while (keys.size() < count) keys.insert(prefix + random.String(random.Below(most_bytes + 1)));
    std::vector<std::string> shuffled(keys.begin(), keys.end());
    for (size_t i = shuffled.size(); i > 1; --i) {
      std::swap(shuffled[i - 1], shuffled[random.Below(static_cast<uint32_t>(i))]);
    }
    return shuffled;
  }
};

TEST_F(KeyRanksTest, AreThoseOfTheKeys) {
  for (const size_t count : {0, 1, 2, 15, 16, 17, 64, 128, 129, 300}) {
    ExpectRanks(Keys(count, 16, ""));
  }
}

// The first 8 bytes do not tell them apart.
TEST_F(KeyRanksTest, AreThoseOfKeysWithOnePrefix) {
  for (const size_t count : {2, 40, 128, 200}) ExpectRanks(Keys(count, 8, "the same "));
}

// Their difference takes more than the 31 bits that ranks are counted by.
TEST_F(KeyRanksTest, AreThoseOfNeighboursAmongDistantKeys) {
  using namespace std::string_literals;
  ExpectRanks({"\xff\xff\xff\xff"s, "\0\0\0\0\0\0\0\2"s, "\0\0\0\0\0\0\0\1"s, "\0\0\0\0\0\0\0\1\0"s,
               ""s, "\0"s});
}

TEST(RankWordsTest, RefusesWhatItCannotTellApart) {
  std::array<int32_t, kMaxRanked> ranks;
  EXPECT_FALSE(RankWords(std::vector<uint64_t>{3, 1, 3}, ranks));
  EXPECT_FALSE(RankWords(std::vector<uint64_t>{uint64_t{1} << 63, 0, 1}, ranks));
  EXPECT_FALSE(RankWords(std::vector<uint64_t>(kMaxRanked + 1), ranks));
  EXPECT_TRUE(RankWords({}, ranks));
  ASSERT_TRUE(RankWords(std::vector<uint64_t>{3, 1, 2}, ranks));
  EXPECT_EQ(std::vector<int32_t>(ranks.begin(), ranks.begin() + 3),
            (std::vector<int32_t>{2, 0, 1}));
}

}  // namespace
}  // namespace gossamer
