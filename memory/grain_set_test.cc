#include "memory/grain_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <span>
#include <vector>

#include "common/testing/seed.h"

namespace gossamer {
namespace {

TEST(GrainSet, FindsNeighboursAsASetDoes) {
  std::mt19937_64 random(TestSeed());
  for (const uint64_t bound : {1, 63, 64, 65, 4096, 4097, 300'000}) {
    GrainSet numbers(bound);
    std::set<uint64_t> expected;
    for (int step = 0; step < 3000; ++step) {
      const uint64_t number = random() % bound;
      // Few at first and at last, so that summaries come and go.
      if (random() % 3000 > static_cast<uint64_t>(step)) {
        numbers.Insert(number);
        expected.insert(number);
      } else if (!expected.empty()) {
        const auto at = expected.lower_bound(number);
        const uint64_t erased = at == expected.end() ? *expected.begin() : *at;
        numbers.Erase(erased);
        expected.erase(erased);
      }
      const uint64_t from = random() % bound;
      const auto next = expected.lower_bound(from);
      ASSERT_EQ(numbers.Next(from), next == expected.end() ? GrainSet::kNone : *next);
      const auto behind = expected.upper_bound(from);
      ASSERT_EQ(numbers.Previous(from),
                behind == expected.begin() ? GrainSet::kNone : *std::prev(behind));
      ASSERT_EQ(numbers.Next(from) == from, expected.contains(from));
    }
    EXPECT_EQ(numbers.Next(bound), GrainSet::kNone);
  }
}

// As HeapMap does after a restart.
TEST(GrainSet, GivenNumbersAreFoundOnceTheyAreSummedUp) {
  std::mt19937_64 random(TestSeed());
  for (const uint64_t bound : {1, 64, 65, 4097, 300'000}) {
    std::vector<uint64_t> words(GrainSet::WordsFor(bound));
    GrainSet before{std::span(words)};
    std::set<uint64_t> expected;
    for (int i = 0; i < 20; ++i) {
      const uint64_t number = random() % bound;
      before.Insert(number);
      expected.insert(number);
    }
    before.Erase(*expected.begin());
    expected.erase(expected.begin());
    GrainSet numbers{std::span(words)};
    numbers.SumUp();
    uint64_t at = numbers.Next(0);
    for (const uint64_t number : expected) {
      ASSERT_EQ(at, number);
      at = numbers.Next(at + 1);
    }
    EXPECT_EQ(at, GrainSet::kNone);
    numbers.Insert(bound - 1);
    EXPECT_EQ(numbers.Previous(bound - 1), bound - 1);
    EXPECT_EQ(words.back() >> (bound - 1) % 64, 1u);
  }
}

TEST(GrainSet, TakesABitForEachNumberAndOneInSixtyThreeForSummaries) {
  EXPECT_EQ(GrainSet::BytesFor(64), 8u);
  EXPECT_EQ(GrainSet::BytesFor(65), 16u + 8u);
  EXPECT_LE(GrainSet::BytesFor(uint64_t{1} << 30), (uint64_t{1} << 27) * 64 / 63 + 8);
}

}  // namespace
}  // namespace gossamer
