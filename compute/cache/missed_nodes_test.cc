// Which missed nodes enter a NodeCache.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"
#include "compute/cache/node_cache_test_support.h"

namespace gossamer {
namespace {

// Of the misses of a full cache about one in eight inserts a node. Each node enters some time, and
// the hit rate stays near the cache's share of the nodes.
TEST(NodeCacheTest, FewMissedNodesEnterAFullCache) {
  constexpr uint64_t kNodes = 200;
  constexpr uint64_t kMisses = 40'000;
  NodeCache cache(kNodes / 4 * BytesOf(ParentOf(1000, 1060)));
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  Random random(TestSeed());
  std::vector<bool> has_entered(kNodes);
  uint64_t misses = 0;
  uint64_t gets = 0;
  uint64_t evictions = 0;
  for (; misses < kMisses; ++gets) {
    const uint64_t at = random.Below(kNodes);
    const uint64_t from = 1000 * (1 + at);
    if (FindLeaf(reader, from + 1)) {
      has_entered[at] = true;
      continue;
    }
    ++misses;
    evictions += cache.Insert(NodeAt(1 + at), ParentOf(from, from + 60), NodeCache::kNow,
                              NodeCache::Admission::kDrawn);
  }
  EXPECT_LT(evictions, kMisses / 4);
  EXPECT_GT(evictions, kMisses / 16);
  EXPECT_EQ(std::count(has_entered.begin(), has_entered.end(), true), kNodes) << "each its turn";
  EXPECT_GT(static_cast<double>(gets - kMisses) / static_cast<double>(gets), 0.2);
}

TEST(NodeCacheTest, AMissedNodeEntersWhereItReplacesNone) {
  NodeCache cache(16 * BytesOf(ParentOf(1000, 1010)));
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  for (uint64_t i = 1; i <= 8; ++i)
    cache.Insert(NodeAt(i), ParentOf(1000 * i, 1000 * i + 10), NodeCache::kNow,
                 NodeCache::Admission::kDrawn);
  for (uint64_t i = 1; i <= 8; ++i) EXPECT_TRUE(FindLeaf(reader, 1000 * i)) << i;
  NodeCache full(BytesOf(ParentOf(1000, 1010)));
  NodeCache::Reader of_full(full);
  full.SetRoot(RootWord(NodeAt(1), 1));
  for (uint32_t version = 1; version < 20; ++version) {
    full.Insert(NodeAt(1), ParentOf(1000, 1010, version), NodeCache::kNow,
                NodeCache::Admission::kDrawn);
    ASSERT_TRUE(FindLeaf(of_full, 1000)) << "alone, or forgotten";
    full.Forget(1, KeyOf(1000), NodeAt(1));
  }
}

}  // namespace
}  // namespace gossamer
