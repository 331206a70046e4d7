// Leaves that a split adds to the cached parent.
#include <gtest/gtest.h>

#include <span>
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
  EXPECT_EQ(FindLeaf(reader, 15)->node, LeafAt(14));
  reader.ReplaceHint(KeyOf(16), LeafAt(16), 3);
  InsertLeaf(cache, NodeAt(1), Key(KeyOf(15)), LeafAt(15));
  EXPECT_EQ(FindLeaf(reader, 15)->node, LeafAt(15));
  EXPECT_EQ(FindLeaf(reader, 15)->hint, 0u);
  EXPECT_EQ(FindLeaf(reader, 16)->hint, 3u);
}

// Parents of a few and of many leaves, with separators that a copy can take over and with longer
// ones; the leaves are split off the sixth child, or off the last one of a parent that ends there
// or has no end.
TEST(NodeCacheTest, LeavesSplitOffTogetherAreFoundWithTheirHints) {
  for (int form = 0; form < 16; ++form) {
    const uint64_t end = (form & 1) == 0 ? 30 : 200;
    const std::string suffix((form & 2) == 0 ? 0 : 20, 'x');
    const bool are_last = (form & 4) != 0;
    NodeCache cache(uint64_t{1} << 20);
    NodeCache::Reader reader(cache);
    cache.SetRoot(RootWord(NodeAt(1), 1));
    InternalNode node = ParentOf(10, end);
    if ((form & 8) != 0) node.high = HighFence{};
    const uint64_t first = are_last ? end - 3 : 15;
    const auto begin = node.children.begin() + static_cast<ptrdiff_t>(first - 10);
    node.children.erase(begin, begin + 3);
    cache.Insert(NodeAt(1), node);
    std::vector<InternalNode::Child> leaves = {{Key(KeyOf(first - 1)), LeafAt(first - 1)}};
    const std::vector<uint64_t> hints = {4, 5, 6, 7};
    for (uint64_t i = first; i < first + 3; ++i) {
      leaves.push_back({Key(KeyOf(i) + suffix), LeafAt(i)});
    }
    cache.InsertChildren(NodeAt(1), std::span(leaves).subspan(1));
    reader.ReplaceHints(leaves, hints);
    for (uint64_t i = 0; i < 4; ++i) {
      const NodeCache::LeafSpot spot = reader.FindSpot(KeyOf(first - 1 + i) + suffix);
      EXPECT_EQ(spot.leaf, LeafAt(first - 1 + i)) << form;
      EXPECT_EQ(spot.hint, hints[i]) << form;
    }
    EXPECT_EQ(FindLeaf(reader, 10)->hint, 0u);
    EXPECT_EQ(FindLeaf(reader, 10)->node, LeafAt(10));
    if (are_last) continue;
    EXPECT_EQ(FindLeaf(reader, 18)->hint, 0u);
    EXPECT_EQ(FindLeaf(reader, end - 1)->node, LeafAt(end - 1));
  }
}

// The second leaf is of another parent, the third one is not there any more.
TEST(NodeCacheTest, HintsAreOfTheLeavesThatAreThere) {
  NodeCache cache(uint64_t{1} << 20);
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(9), 2));
  cache.Insert(NodeAt(1), ParentOf(10, 20));
  cache.Insert(NodeAt(2), ParentOf(20, 30));
  const std::vector<InternalNode::Child> leaves = {{Key(KeyOf(19)), LeafAt(19)},
                                                   {Key(KeyOf(20)), LeafAt(20)},
                                                   {Key(KeyOf(21)), LeafAt(99)},
                                                   {Key(KeyOf(22)), LeafAt(22)}};
  const std::vector<uint64_t> hints = {1, 2, 3, 4};
  reader.ReplaceHints(leaves, hints);
  EXPECT_EQ(FindLeaf(reader, 19)->hint, 1u);
  EXPECT_EQ(FindLeaf(reader, 20)->hint, 2u);
  EXPECT_EQ(FindLeaf(reader, 21)->hint, 0u);
  EXPECT_EQ(FindLeaf(reader, 22)->hint, 4u);
  EXPECT_EQ(FindLeaf(reader, 23)->hint, 0u);
}

// A parent is written with the leaf of one split, while the leaf of another one is cached in
// advance.
TEST(NodeCacheTest, AParentThatWasWrittenKeepsTheLeavesOfOtherSplits) {
  NodeCache cache(uint64_t{1} << 20);
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  InternalNode node = ParentOf(10, 30, 1);
  node.children.erase(node.children.begin() + 15);  // 25
  node.children.erase(node.children.begin() + 5);   // 15
  cache.Insert(NodeAt(1), node);
  InsertLeaf(cache, NodeAt(1), Key(KeyOf(15)), LeafAt(15));
  InsertLeaf(cache, NodeAt(1), Key(KeyOf(25)), LeafAt(25));
  // What the parent is in `version` with the leaf `added`.
  const auto write = [&](uint32_t version, uint64_t added, RemotePtr leaf) {
    const InternalNode::Child child{Key(KeyOf(added)), leaf};
    node.version = NodeVersion{version};
    node.children.insert(node.children.begin() + node.ChildIndex(child.separator) + 1, child);
    std::vector<std::byte> image(kNodeBytes);
    ASSERT_TRUE(EncodeInternal(image, NodeAt(1), node));
    cache.Insert(NodeAt(1), *InternalView::Parse(image, NodeAt(1)), NodeCache::kNow, {&child, 1});
  };
  write(2, 15, LeafAt(15));
  EXPECT_EQ(FindLeaf(reader, 15)->node, LeafAt(15));
  EXPECT_EQ(FindLeaf(reader, 25)->node, LeafAt(25));
  // The cached node lacks a leaf: another compute server wrote version 3.
  node.children.insert(node.children.begin() + 3, {Key(KeyOf(12) + "m"), LeafAt(60)});
  write(4, 25, LeafAt(25));
  EXPECT_EQ(FindLeaf(reader, 25)->node, LeafAt(25));
  EXPECT_EQ(reader.FindSpot(KeyOf(12) + "z").leaf, LeafAt(60));
  node.children.erase(node.children.begin() + 6);
  write(5, 15, LeafAt(77));  // not the leaf that is cached
  EXPECT_EQ(FindLeaf(reader, 15)->node, LeafAt(77));
  // An older version changes nothing.
  node.children.erase(node.children.begin() + 6);
  write(3, 15, LeafAt(15));
  EXPECT_EQ(FindLeaf(reader, 15)->node, LeafAt(77));
}

TEST(NodeCacheTest, LeavesThatTheCachedParentContradictsAreNotAdded) {
  NodeCache cache(uint64_t{1} << 20);
  NodeCache::Reader reader(cache);
  cache.SetRoot(RootWord(NodeAt(1), 1));
  InternalNode node = ParentOf(10, 20);
  node.children.erase(node.children.begin() + 5);
  cache.Insert(NodeAt(1), node);
  const auto added = [&](RemotePtr parent, const std::string& first, const std::string& last) {
    const std::vector<InternalNode::Child> leaves = {{Key(first), LeafAt(50)},
                                                     {Key(last), LeafAt(51)}};
    cache.InsertChildren(parent, leaves);
    return reader.FindSpot(first).leaf == LeafAt(50) && reader.FindSpot(last).leaf == LeafAt(51);
  };
  EXPECT_FALSE(added(NodeAt(2), KeyOf(15), KeyOf(15) + "x"));  // another parent
  EXPECT_FALSE(added(NodeAt(1), KeyOf(16), KeyOf(16) + "x"));  // the first one is there
  EXPECT_FALSE(added(NodeAt(1), KeyOf(15), KeyOf(16)));        // the last one is there
  EXPECT_FALSE(added(NodeAt(1), KeyOf(15), KeyOf(17) + "x"));  // a child is between them
  EXPECT_FALSE(added(NodeAt(1), KeyOf(19) + "x", KeyOf(20)));  // beyond the parent's end
  EXPECT_FALSE(added(NodeAt(1), KeyOf(20), KeyOf(20) + "x"));
  EXPECT_TRUE(added(NodeAt(1), KeyOf(19) + "x", KeyOf(19) + "y"));  // behind its last child
  EXPECT_EQ(FindLeaf(reader, 15)->node, LeafAt(14));
  EXPECT_EQ(FindLeaf(reader, 16)->node, LeafAt(16));
}

}  // namespace
}  // namespace gossamer
