#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"
#include "compute/cache/node_cache_test_support.h"

namespace gossamer {
namespace {

TEST(NodeCacheTest, FindsALeafUnderAParentThatIsThere) {
  NodeCache cache(uint64_t{1} << 20);
  NodeCache::Reader reader(cache);
  EXPECT_FALSE(FindLeaf(reader, 15));
  cache.SetRoot(RootWord(NodeAt(1), 1));
  EXPECT_FALSE(FindLeaf(reader, 15));
  cache.Insert(NodeAt(1), ParentOf(10, 20));
  const std::optional<NodeCache::Step> step = FindLeaf(reader, 15);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->node, LeafAt(15));
  EXPECT_EQ(step->parent, NodeAt(1));
  EXPECT_EQ(step->low, Key(KeyOf(15)));
  EXPECT_FALSE(FindLeaf(reader, 20)) << "beyond the high fence";
  cache.Forget(1, KeyOf(10), NodeAt(1));
  EXPECT_FALSE(FindLeaf(reader, 15));
}

TEST(NodeCacheTest, ATreeOfOneLeafHasEachKeyThere) {
  NodeCache cache(uint64_t{1} << 20);
  NodeCache::Reader reader(cache);
  EXPECT_TRUE(reader.FindSpot("k").leaf.is_null());
  cache.SetRoot(RootWord(LeafAt(7), 0));
  const std::vector<KeyView> keys(5, "k");
  std::vector<NodeCache::LeafSpot> spots(keys.size());
  reader.FindLeaves(keys, 64, spots);
  spots.push_back(reader.FindSpot("k"));
  for (const NodeCache::LeafSpot& spot : spots) {
    EXPECT_EQ(spot.leaf, LeafAt(7));
    // Nothing is known of it: its overflow group may have any key, and there may be room.
    EXPECT_TRUE(LeafHint(spot.hint).MayHaveOverflowed(KeyHash("k"), 0));
    EXPECT_FALSE(LeafHint(spot.hint).IsFull(0));
  }
  cache.SetRoot(RootWord(NodeAt(1), 1));
  EXPECT_TRUE(reader.FindSpot("k").leaf.is_null()) << "its parent is not cached";
}

// Two entries of the index may lead to one node: SeparatorIndex::Remove leaves the second. If a
// node takes the second's place, both entries must go.
TEST(NodeCacheTest, ANodeWithTwoEntriesLosesBoth) {
  constexpr uint64_t kNodes = 4000;  // an index of several nodes
  constexpr uint64_t kFanout = 4;
  NodeCache cache(uint64_t{64} << 20);
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(9 * kNodes), 2));
  const auto right_of = [](uint64_t node, uint32_t version) {
    const uint64_t end = kFanout * (node + 1);
    return ParentOf(end - kFanout / 2, end, version);
  };
  for (uint64_t node = 0; node < kNodes; ++node) {
    cache.Insert(NodeAt(node), ParentOf(kFanout * node, kFanout * (node + 1), 1));
  }
  // Another compute server has split each node.
  for (uint64_t node = 0; node < kNodes; ++node) {
    cache.Insert(NodeAt(kNodes + node), right_of(node, 1));
  }
  for (uint64_t node = 0; node < kNodes; ++node) {
    // This one splits a leaf of the left half, and displaces the right half.
    InsertLeaf(cache, NodeAt(node), Key(KeyOf(kFanout * node) + "m"), LeafAt(9 * kNodes));
    cache.Insert(NodeAt(kNodes + node), right_of(node, 2));
  }
  // New nodes of the same size reuse the memory of removed nodes.
  for (uint64_t node = 2 * kNodes; node < 4 * kNodes; ++node) {
    const uint64_t from = kFanout * node;
    cache.Insert(NodeAt(node), ParentOf(from, from + kFanout, 1));
    InsertLeaf(cache, NodeAt(node), Key(KeyOf(from) + "m"), LeafAt(9 * kNodes));
  }
  size_t found = 0;
  for (uint64_t node = 0; node < kNodes; ++node) {
    const std::optional<NodeCache::Step> step = FindLeaf(reader, kFanout * node);
    if (!step || !step->has_parent()) continue;
    ++found;
    ASSERT_EQ(step->node, LeafAt(kFanout * node)) << node;
  }
  EXPECT_GT(found, kNodes / 2);
}

TEST(NodeCacheTest, WhatIsForgottenLeavesItsHints) {
  NodeCache cache(2 * BytesOf(ParentOf(10, 20)));
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  cache.Insert(NodeAt(1), ParentOf(10, 20, 5));
  reader.ReplaceHint(KeyOf(12), LeafAt(12), 7);
  cache.Forget(1, KeyOf(10), NodeAt(1));
  reader.ReplaceHint(KeyOf(12), LeafAt(12), 8);
  EXPECT_FALSE(FindLeaf(reader, 12));
  std::vector<NodeCache::LeafRef> leaves;
  HighFence end;
  EXPECT_EQ(reader.CollectRight(KeyOf(12), 10, leaves, end), 0u);
  cache.Insert(NodeAt(1), ParentOf(10, 20, 5));
  EXPECT_EQ(FindLeaf(reader, 12)->hint, 7u);
  // A forgotten node counts towards the bound and is evicted like any other.
  cache.Forget(1, KeyOf(10), NodeAt(1));
  cache.Insert(NodeAt(2), ParentOf(20, 30));
  EXPECT_GT(cache.bytes(), BytesOf(ParentOf(10, 20)));
  EXPECT_EQ(cache.Insert(NodeAt(3), ParentOf(30, 40)), 1u);
  cache.Insert(NodeAt(1), ParentOf(10, 20, 5));
  EXPECT_EQ(FindLeaf(reader, 12)->hint, 0u);
}

TEST(NodeCacheTest, ANewerVersionStaysAndHintsOfLeavesThatStayAreKept) {
  NodeCache cache(uint64_t{1} << 20);
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  cache.Insert(NodeAt(1), ParentOf(10, 20, 5));
  reader.ReplaceHint(KeyOf(12), LeafAt(12), 7);
  cache.Insert(NodeAt(1), ParentOf(10, 15, 6));
  cache.Insert(NodeAt(1), ParentOf(10, 20, 5));
  EXPECT_FALSE(FindLeaf(reader, 17));
  EXPECT_EQ(FindLeaf(reader, 12)->hint, 7u);
  EXPECT_EQ(FindLeaf(reader, 13)->hint, 0u);
}

TEST(NodeCacheTest, HintsGoWithTheChildrenOfANodeThatHasSplit) {
  NodeCache cache(uint64_t{1} << 20);
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(3), 2));
  InternalNode root;
  root.version = NodeVersion{1};
  root.level = 2;
  root.children = {{Key(), NodeAt(1)}, {Key(KeyOf(15)), NodeAt(2)}};
  cache.Insert(NodeAt(3), root);
  cache.Insert(NodeAt(1), ParentOf(10, 20, 1));
  for (uint64_t i = 10; i < 20; ++i) {
    reader.ReplaceHint(KeyOf(i), LeafAt(i), i);
  }
  cache.Insert(NodeAt(2), ParentOf(15, 20, 2));
  cache.Insert(NodeAt(1), ParentOf(10, 15, 2));
  for (uint64_t i = 10; i < 20; ++i) EXPECT_EQ(FindLeaf(reader, i)->hint, i);
}

TEST(NodeCacheTest, APatchChangesTheBitsThatItKnows) {
  NodeCache cache(uint64_t{1} << 20);
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  cache.Insert(NodeAt(1), ParentOf(10, 20));
  reader.PatchHint(KeyOf(12), LeafAt(12), {0xff, 0x35});
  reader.PatchHint(KeyOf(12), LeafAt(12), {0xf00, 0xf00});
  reader.PatchHint(KeyOf(12), LeafAt(12), {0xf, 0xa});
  reader.PatchHint(KeyOf(12), LeafAt(13), {0xf, 0xf});  // another leaf now
  EXPECT_EQ(FindLeaf(reader, 12)->hint, 0xf3au);
}

TEST(NodeCacheTest, NothingLargerThanTheBoundIsKept) {
  const uint64_t bytes = BytesOf(ParentOf(10, 20));
  NodeCache cache(bytes);
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  cache.Insert(NodeAt(1), ParentOf(10, 20));
  EXPECT_TRUE(FindLeaf(reader, 15));
  cache.Insert(NodeAt(1), ParentOf(10, 40, 2));
  EXPECT_EQ(cache.bytes(), 0u) << "nor is what it replaces";
  cache.Insert(NodeAt(1), ParentOf(10, 20, 3));
  EXPECT_TRUE(FindLeaf(reader, 15));
  for (char c = 'a'; c != 'z'; ++c) {
    InsertLeaf(cache, NodeAt(1), Key(KeyOf(15) + std::string(24, c)), LeafAt(1));
  }
  EXPECT_EQ(cache.bytes(), 0u);
  NodeCache none(0);
  none.Insert(NodeAt(1), ParentOf(10, 20));
  EXPECT_EQ(none.bytes(), 0u);
}

TEST(NodeCacheTest, WhatIsUsedBetweenEvictionsStays) {
  NodeCache cache(4 * BytesOf(ParentOf(1000, 1010)));
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  cache.Insert(NodeAt(1), ParentOf(1000, 1010));
  uint64_t evictions = 0;
  for (uint64_t i = 2; i < 1000; ++i) {
    ASSERT_TRUE(FindLeaf(reader, 1005)) << i;
    evictions += cache.Insert(NodeAt(i), ParentOf(2000 + 10 * i, 2010 + 10 * i));
  }
  EXPECT_GE(evictions, 990u);
}

// A lookup that finds nothing is a use of no node. (It was one of the node that had entered first.)
TEST(NodeCacheTest, MissesKeepNoNode) {
  NodeCache cache(4 * BytesOf(ParentOf(1000, 1010)));
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  const std::string missing = KeyOf(1);
  for (uint64_t i = 1;; ++i) {
    ASSERT_LT(i, 10u);
    if (cache.Insert(NodeAt(i), ParentOf(1000 * i, 1000 * i + 10)) != 0) break;
    const KeyView key = missing;
    NodeCache::LeafSpot spot;
    reader.FindLeaves({&key, 1}, 1, {&spot, 1});
    ASSERT_TRUE(spot.leaf.is_null());
    ASSERT_TRUE(reader.FindSpot(missing).leaf.is_null());
  }
  EXPECT_FALSE(FindLeaf(reader, 1005)) << "the first one goes first";
}

TEST(NodeCacheTest, TheRootIsNeverEvictedForAnotherNode) {
  InternalNode root;
  root.version = NodeVersion{1};
  root.level = 2;
  root.high.infinite = true;
  root.children = {{Key(), NodeAt(2)}};
  NodeCache cache(BytesOf(root) + BytesOf(ParentOf(10, 20)));
  cache.SetRoot(RootWord(NodeAt(1), 2));
  EXPECT_EQ(cache.Insert(NodeAt(1), root), 0u);
  EXPECT_EQ(cache.Insert(NodeAt(2), ParentOf(10, 20)), 0u);
  EXPECT_EQ(cache.Insert(NodeAt(3), ParentOf(10, 40)), 0u) << "no room beside the root";
  NodeCache::Reader reader(cache);
  EXPECT_TRUE(FindLeaf(reader, 15));
  EXPECT_EQ(cache.Insert(NodeAt(4), ParentOf(20, 30)), 1u);
  EXPECT_EQ(reader.Find(SearchGoal::Covering(KeyOf(15)), 0)->node, NodeAt(2));
}

TEST(NodeCacheTest, TakesNothingOfOperationsOfThePast) {
  NodeCache cache(uint64_t{1} << 20);
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1), 0);
  EXPECT_EQ(cache.root(), RootWord(NodeAt(1), 1));
  cache.Clear();
  EXPECT_EQ(cache.flushes(), 1u);
  EXPECT_EQ(cache.root(), RootWord());
  cache.SetRoot(RootWord(NodeAt(1), 1), 0);
  EXPECT_EQ(cache.root(), RootWord()) << "of before it was emptied";
  cache.SetRoot(RootWord(NodeAt(2), 1), 1);
  cache.Insert(NodeAt(2), ParentOf(10, 20), 0);
  EXPECT_FALSE(FindLeaf(reader, 15)) << "of before it was emptied";
  cache.Insert(NodeAt(2), ParentOf(10, 20), 1);
  EXPECT_TRUE(FindLeaf(reader, 15));
}

// Lookups meet a cache that evicts, forgets, splits and joins nodes all the time, and gives them
// new
// children: each answer is right, or says that the parent is not cached.
class NodeCacheChangesTest : public testing::Test {
 protected:
  static constexpr uint64_t kNodes = 200;
  static constexpr uint64_t kFanout = 20;
  static constexpr uint64_t kKeys = kNodes * kFanout;

  NodeCacheChangesTest() { cache_.SetRoot(RootWord(NodeAt(2 * kNodes), 2)); }
  ~NodeCacheChangesTest() override { writer_.join(); }

  void Change() {
    Random random(TestSeed(), 1);
    for (uint32_t version = 0; version < 20'000; ++version) ChangeNode(random, version);
    done_ = true;
  }
  void ChangeNode(Random& random, uint32_t version) {
    const uint64_t node = random.Below(kNodes);
    const uint64_t from = kFanout * node;
    const uint64_t to = from + kFanout;
    InternalNode whole = ParentOf(from, to, version);
    switch (random.Below(4)) {
      case 0: {
        const uint64_t middle = from + kFanout / 2;
        cache_.Insert(NodeAt(kNodes + node), ParentOf(middle, to, version));
        cache_.Insert(NodeAt(node), ParentOf(from, middle, version));
        break;
      }
      case 1:
        whole.children.erase(whole.children.begin() + 5);
        cache_.Insert(NodeAt(node), whole);
        InsertLeaf(cache_, NodeAt(node), Key(KeyOf(from + 5)), LeafAt(from + 5));
        break;
      case 2: cache_.Forget(1, KeyOf(from), NodeAt(node)); [[fallthrough]];
      default: cache_.Insert(NodeAt(node), whole);
    }
  }

  // Leaf i starts at key i. Some leaves are split off late: their keys are their left neighbours'.
  static bool IsLeafOf(RemotePtr leaf, uint64_t number) {
    return leaf == LeafAt(number) || (number % kFanout == 5 && leaf == LeafAt(number - 1));
  }
  static void CheckLeaf(RemotePtr leaf, const Key& low) {
    ASSERT_EQ(low, Key(KeyOf(leaf.offset() / kNodeBytes)));
  }
  uint64_t Draw() { return random_.Below(kKeys); }
  void CheckBatch(NodeCache::Reader& reader) {
    std::vector<std::string> keys;
    std::vector<uint64_t> numbers;
    for (int i = 0; i < 100; ++i) {
      numbers.push_back(Draw());
      keys.push_back(KeyOf(numbers.back()));
    }
    const std::vector<KeyView> views(keys.begin(), keys.end());
    std::vector<NodeCache::LeafSpot> spots(keys.size());
    reader.FindLeaves(views, 32, spots);
    for (size_t i = 0; i < spots.size(); ++i) {
      if (spots[i].leaf.is_null()) continue;
      ASSERT_TRUE(IsLeafOf(spots[i].leaf, numbers[i])) << numbers[i];
      ++found_;
    }
  }
  void CheckFind(NodeCache::Reader& reader) {
    const uint64_t number = Draw();
    const std::optional<NodeCache::Step> step = FindLeaf(reader, number);
    if (!step) return;
    ASSERT_LE(step->low.view(), KeyView(KeyOf(number)));
    ASSERT_TRUE(IsLeafOf(step->node, number)) << number;
    CheckLeaf(step->node, step->low);
    ++found_;
  }
  void CheckNeighbours(NodeCache::Reader& reader) {
    const std::string key = KeyOf(Draw());
    std::vector<NodeCache::LeafRef> leaves;
    HighFence end;
    reader.CollectRight(key, 50, leaves, end);
    for (size_t i = 0; i < leaves.size(); ++i) {
      CheckLeaf(leaves[i].leaf, leaves[i].low);
      if (i != 0) {
        ASSERT_LT(leaves[i - 1].low.view(), leaves[i].low.view());
      }
    }
    if (!leaves.empty()) {
      ASSERT_LE(leaves[0].low.view(), KeyView(key));
    }
    found_ += leaves.size();
    leaves.clear();
    reader.CollectLeft(HighFence::At(key), 50, leaves);
    for (size_t i = 0; i < leaves.size(); ++i) {
      CheckLeaf(leaves[i].leaf, leaves[i].low);
      ASSERT_LT(leaves[i].low.view(), i == 0 ? KeyView(key) : leaves[i - 1].low.view());
    }
    found_ += leaves.size();
  }

  NodeCache cache_{40 * BytesOf(ParentOf(1000, 1020))};
  std::atomic<bool> done_ = false;
  std::thread writer_{[this] { Change(); }};
  Random random_{TestSeed(), 2};
  uint64_t found_ = 0;
};

TEST_F(NodeCacheChangesTest, LookupsAreRightMeanwhile) {
  NodeCache::Reader reader(cache_);
  while (!done_) {
    CheckBatch(reader);
    for (int i = 0; i < 100; ++i) ASSERT_NO_FATAL_FAILURE(CheckFind(reader));
    ASSERT_NO_FATAL_FAILURE(CheckNeighbours(reader));
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(found_, 0u);
}

// Memory between the nodes, too: nodes of many sizes replace each other.
TEST(NodeCacheTest, MemoryInUseStaysNearTheBound) {
  constexpr uint64_t kBound = uint64_t{4} << 20;
  constexpr uint64_t kNodes = 4'000;
  NodeCache cache(kBound);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  Random random(TestSeed());
  for (uint32_t i = 0; i < 100'000; ++i) {
    const uint64_t from = 100 * random.Below(kNodes);
    cache.Insert(NodeAt(from), ParentOf(from, from + 10 + random.Below(80), i));
  }
  EXPECT_GT(cache.bytes(), kBound * 9 / 10);
  EXPECT_LE(cache.used_bytes(), kBound * 4 / 3);
}

// Holds also for threads that look up nodes while others insert.
TEST(NodeCacheTest, NeverHoldsMoreThanItsBound) {
  constexpr uint64_t kNodes = 64;
  constexpr size_t kWriters = 2;
  const uint64_t bound = 8 * BytesOf(ParentOf(1000, 1020));
  NodeCache cache(bound);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  std::atomic<size_t> writing = kWriters;
  std::vector<std::thread> writers;
  for (size_t w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      Random random(TestSeed(), w);
      NodeCache::Reader reader(cache);
      for (int i = 0; i < 20'000; ++i) {
        const uint64_t at = 1 + random.Below(kNodes);
        const uint64_t from = 1000 * at;
        cache.Insert(NodeAt(at), ParentOf(from, from + 1 + random.Below(30)));
        if (random.Below(8) == 0) {
          const uint64_t other = 1 + random.Below(kNodes);
          cache.Forget(1, KeyOf(1000 * other), NodeAt(other));
        }
        FindLeaf(reader, 1000);
        InsertLeaf(cache, NodeAt(at), Key(KeyOf(from) + "x"), LeafAt(1));
      }
      --writing;
    });
  }
  uint64_t most = 0;
  while (writing != 0) most = std::max(most, cache.bytes());
  for (std::thread& writer : writers) writer.join();
  EXPECT_LE(most, bound);
  EXPECT_GT(most, bound / 2);
}

}  // namespace
}  // namespace gossamer
