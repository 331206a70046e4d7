// The cache of internal nodes: what it finds, what it evicts.
#include "compute/research/sherman/index_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace gossamer::sherman {
namespace {

constexpr uint32_t kRootLevel = 4;

RemotePtr Child(uint64_t number) { return {ServerId{0}, (number + 16) * kNodeBytes, 0}; }

// A node for keys from `low` to below `low` + 100, with children at each ten.
InternalNode NodeAt(uint64_t low, uint8_t level = 1) {
  InternalNode node{};
  node.header.level = level;
  node.header.low = Key{low};
  node.header.high = Key{low + 100};
  node.header.leftmost = Child(low).word();
  for (uint64_t key = low + 10; key < low + 100; key += 10) node.Insert(Key{key}, Child(key));
  return node;
}

TEST(IndexCacheTest, FindsTheChildOfAKey) {
  IndexCache cache(8 * kNodeBytes);
  EXPECT_FALSE(cache.Find(1, Key{5}));
  cache.Put(NodeAt(0), kRootLevel);
  cache.Put(NodeAt(200), kRootLevel);
  EXPECT_EQ(cache.Find(1, Key{5}), Child(0));
  EXPECT_EQ(cache.Find(1, Key{99}), Child(90));
  EXPECT_FALSE(cache.Find(1, Key{100})) << "between the two";
  EXPECT_EQ(cache.Find(1, Key{215}), Child(210));
  EXPECT_FALSE(cache.Find(2, Key{5}));
  EXPECT_EQ(cache.bytes(), 2 * kNodeBytes);
}

TEST(IndexCacheTest, FindsLeavesOfOneParent) {
  IndexCache cache(8 * kNodeBytes);
  cache.Put(NodeAt(0), kRootLevel);
  cache.Put(NodeAt(100), kRootLevel);
  std::vector<RemotePtr> leaves;
  cache.FindLeaves(Key{75}, 2, leaves);
  EXPECT_EQ(leaves, (std::vector{Child(70), Child(80)}));
  leaves.clear();
  cache.FindLeaves(Key{75}, 9, leaves);
  EXPECT_EQ(leaves, (std::vector{Child(70), Child(80), Child(90)}));
  leaves.clear();
  cache.FindLeaves(Key{300}, 9, leaves);
  EXPECT_TRUE(leaves.empty());
}

TEST(IndexCacheTest, ANewerCopyTakesThePlaceOfTheOlder) {
  IndexCache cache(8 * kNodeBytes);
  InternalNode node = NodeAt(0);
  cache.Put(node, kRootLevel);
  node.Insert(Key{15}, Child(15));
  cache.Put(node, kRootLevel);
  EXPECT_EQ(cache.Find(1, Key{16}), Child(15));
  EXPECT_EQ(cache.bytes(), kNodeBytes);
  cache.Forget(1, Key{50});
  EXPECT_FALSE(cache.Find(1, Key{16}));
  cache.Forget(1, Key{50});
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(IndexCacheTest, KeepsLevelOneAndTheTwoTopLevels) {
  IndexCache cache(8 * kNodeBytes);
  for (uint8_t level = 1; level <= kRootLevel; ++level) cache.Put(NodeAt(0, level), kRootLevel);
  EXPECT_TRUE(cache.Find(1, Key{5}));
  EXPECT_FALSE(cache.Find(2, Key{5}));
  EXPECT_TRUE(cache.Find(3, Key{5}));
  EXPECT_TRUE(cache.Find(4, Key{5}));
}

TEST(IndexCacheTest, EvictsWhatWasNotUsed) {
  constexpr uint64_t kCopies = 16;
  IndexCache cache(kCopies * kNodeBytes);
  uint64_t evictions = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    evictions += cache.Put(NodeAt(i * 100), kRootLevel);
    EXPECT_LE(cache.bytes(), kCopies * kNodeBytes);
    EXPECT_TRUE(cache.Find(1, Key{i * 100})) << "the newest is there";
    cache.Put(NodeAt(0, 4), kRootLevel);
    cache.Forget(4, Key{0});
  }
  EXPECT_EQ(evictions, 1000 - kCopies);
  EXPECT_EQ(cache.bytes(), kCopies * kNodeBytes);
}

}  // namespace
}  // namespace gossamer::sherman
