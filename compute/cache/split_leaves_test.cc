// Leaves that a split adds to the cached parent.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compute/cache/node_cache_test_support.h"

namespace gossamer {
namespace {

TEST(NodeCacheTest, ALeafSplitOffIsFoundAtOnce) {
  NodeCache cache(uint64_t{1} << 20);
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  InternalNode node = ParentOf(10, 20);
  node.children.erase(node.children.begin() + 5);  // 14's range now ends at 16
  cache.Insert(NodeAt(1), node);
  EXPECT_EQ(FindLeaf(cache, reader, 15)->node, LeafAt(14));
  cache.ReplaceHint(reader, KeyOf(16), LeafAt(16), 3);
  InsertLeaf(cache, NodeAt(1), Key(KeyOf(15)), LeafAt(15));
  EXPECT_EQ(FindLeaf(cache, reader, 15)->node, LeafAt(15));
  EXPECT_EQ(FindLeaf(cache, reader, 15)->hint, 0u);
  EXPECT_EQ(FindLeaf(cache, reader, 16)->hint, 3u);
}

// Parents of a few and of many leaves, with separators that a copy can take over and with longer ones.
TEST(NodeCacheTest, LeavesSplitOffTogetherAreFoundWithTheirHints) {
  for (const uint64_t end : {30, 200}) {
    for (const size_t suffix : {size_t{0}, size_t{20}}) {
      NodeCache cache(uint64_t{1} << 20);
      NodeCache::Reader reader(cache);
      cache.SetRoot(RootWord(NodeAt(1), 1));
      InternalNode node = ParentOf(10, end);
      node.children.erase(node.children.begin() + 5, node.children.begin() + 8);  // 15, 16, 17
      cache.Insert(NodeAt(1), node);
      cache.ReplaceHint(reader, KeyOf(14), LeafAt(14), 4);
      cache.ReplaceHint(reader, KeyOf(18), LeafAt(18), 8);
      std::vector<InternalNode::Child> leaves;
      const std::vector<uint64_t> hints = {5, 6, 7};
      for (uint64_t i = 15; i < 18; ++i) {
        leaves.push_back({Key(KeyOf(i) + std::string(suffix, 'x')), LeafAt(i)});
      }
      EXPECT_TRUE(cache.InsertChildren(NodeAt(1), leaves, hints).was_cached);
      for (uint64_t i = 14; i <= 18; ++i) {
        const std::string key = KeyOf(i) + std::string(suffix, 'x');
        const NodeCache::LeafSpot spot = cache.FindSpot(reader, key);
        EXPECT_EQ(spot.leaf, LeafAt(i)) << i;
        EXPECT_EQ(spot.hint, i - 10) << i;
      }
      EXPECT_EQ(FindLeaf(cache, reader, end - 1)->node, LeafAt(end - 1));
    }
  }
}

TEST(NodeCacheTest, LeavesThatTheCachedParentContradictsAreNotAdded) {
  NodeCache cache(uint64_t{1} << 20);
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  InternalNode node = ParentOf(10, 20);
  node.children.erase(node.children.begin() + 5);
  cache.Insert(NodeAt(1), node);
  const std::vector<uint64_t> hints = {1, 1};
  const auto added = [&](RemotePtr parent, const std::string& first, const std::string& last) {
    const std::vector<InternalNode::Child> leaves = {{Key(first), LeafAt(50)},
                                                     {Key(last), LeafAt(51)}};
    return cache.InsertChildren(parent, leaves, hints).was_cached;
  };
  EXPECT_FALSE(added(NodeAt(2), KeyOf(15), KeyOf(15) + "x"));  // another parent
  EXPECT_FALSE(added(NodeAt(1), KeyOf(16), KeyOf(16) + "x"));  // the first one is there
  EXPECT_FALSE(added(NodeAt(1), KeyOf(15), KeyOf(16)));        // the last one is there
  EXPECT_FALSE(added(NodeAt(1), KeyOf(15), KeyOf(17) + "x"));  // a child is between them
  EXPECT_FALSE(added(NodeAt(1), KeyOf(19) + "x", KeyOf(20)));  // beyond the parent's end
  EXPECT_FALSE(added(NodeAt(1), KeyOf(20), KeyOf(20) + "x"));
  EXPECT_TRUE(added(NodeAt(1), KeyOf(19) + "x", KeyOf(19) + "y"));  // behind its last child
  EXPECT_EQ(FindLeaf(cache, reader, 15)->node, LeafAt(14));
  EXPECT_EQ(FindLeaf(cache, reader, 16)->node, LeafAt(16));
}

}  // namespace
}  // namespace gossamer
