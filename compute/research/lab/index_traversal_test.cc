#include "compute/research/lab/index_traversal.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"
#include "compute/cache/separator_test_support.h"

namespace gossamer::lab {
namespace {

class IndexTraversalTest : public SeparatorTest {};

INSTANTIATE_TEST_SUITE_P(Shapes, IndexTraversalTest, testing::Range(size_t{0}, size_t{6}));

// For a group of keys, each prefetch strategy and each vector target finds the places that one key
// at a time finds.
TEST_P(IndexTraversalTest, EachWayToPrefetchFindsWhatASearchFinds) {
  NodeMemory memory;
  SeparatorIndex index(memory);
  const std::vector<SeparatorNode*> images = FillIndex(memory, index);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (size_t prefetch = 0; prefetch < std::size(kPrefetchNames); ++prefetch) {
      const std::vector<std::string> keys = DrawGroup();
      const std::vector<KeyView> views(keys.begin(), keys.end());
      std::vector<Place> places(keys.size());
      FinderBy(static_cast<Prefetch>(prefetch))(index.root(), views, places);
      for (size_t i = 0; i < keys.size(); ++i) ExpectPlace(index, keys[i], places[i], target);
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  for (SeparatorNode* image : images) SeparatorNode::Free(memory.arena(), image);
}

// Keys are drawn close together and far apart, so that many digests of a node tie, or none.
TEST(PairNodeTest, ATraversalFindsTheLastPairThatIsNotAbove) {
  Random random(TestSeed());
  for (const uint32_t bits : {14, 40, 64}) {
    NodeMemory memory;
    SeparatorIndex index(memory);
    const auto draw = [&] { return random.Next() >> (64 - bits); };
    std::set<uint64_t> keys{0, ~uint64_t{0}};
    while (keys.size() < 3000) keys.insert(draw());
    const auto view_of = [](const uint64_t& big_endian) {
      return KeyView(reinterpret_cast<const char*>(&big_endian), sizeof big_endian);
    };
    for (auto key = keys.begin(); key != keys.end();) {
      std::vector<SeparatorNode::Pair> pairs;
      for (size_t count = 1 + random.Below(random.Below(10) == 0 ? 400 : 128);
           key != keys.end() && count != 0; --count, ++key) {
        pairs.push_back({*key, ~*key});
      }
      // A node may begin below its first pair, but not at or below the one before.
      const uint64_t first = pairs[0].key;
      const uint64_t before = first == 0 ? 0 : *std::prev(keys.find(first));
      const uint64_t low = first == 0 ? 0 : first - random.Below(first - before);
      const SeparatorNode* const node = SeparatorNode::MakeOfPairs(memory.arena(), low, pairs);
      ASSERT_EQ(node->low(), low);
      const uint64_t big_endian = __builtin_bswap64(low);
      index.Set(low == 0 ? KeyView() : view_of(big_endian), reinterpret_cast<uint64_t>(node),
                uint64_t{1} << 40);
    }
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      for (size_t prefetch = 0; prefetch < std::size(kPrefetchNames); ++prefetch) {
        std::vector<uint64_t> sought;
        for (size_t i = 0; i < kMaxGroup; ++i) {
          const auto at = keys.lower_bound(draw());
          sought.push_back(random.Below(2) == 0 || at == keys.end() ? draw() : *at);
        }
        sought[0] = ~uint64_t{0};
        std::vector<uint64_t> words;
        for (const uint64_t key : sought) words.push_back(__builtin_bswap64(key));
        std::vector<KeyView> views;
        for (const uint64_t& word : words) views.push_back(view_of(word));
        std::vector<Place> places(sought.size());
        FindDigests(index.root(), views, static_cast<Prefetch>(prefetch), places);
        for (size_t i = 0; i < sought.size(); ++i) {
          const SeparatorNode& node = *places[i].image;
          const uint32_t found = node.ConfirmPair(places[i].index, sought[i]);
          const uint64_t expected = *std::prev(keys.upper_bound(sought[i]));
          if (node.low() <= expected) {
            ASSERT_EQ(node.pair_key(found), expected) << hwy::TargetName(target);
            ASSERT_EQ(node.pair_value(found).load(), ~expected);
          } else {
            ASSERT_EQ(found, 0u) << "the key is below all pairs of its node";
            ASSERT_GT(node.pair_key(0), sought[i]);
          }
        }
      }
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace
}  // namespace gossamer::lab
