// Nodes: golden offsets, versions, splits.
#include "compute/research/sherman/node.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace gossamer::sherman {
namespace {

LeafNode NewLeaf() {
  LeafNode leaf{};
  leaf.header.high = kNoBound;
  return leaf;
}

InternalNode FullNode() {
  InternalNode node{};
  node.header.level = 1;
  node.header.high = kNoBound;
  node.header.leftmost = RemotePtr(ServerId{0}, 1 << 20, 0).word();
  for (uint64_t i = 1; i <= kInternalEntries; ++i) {
    node.Insert(Key{i * 10}, RemotePtr(ServerId{0}, (1 << 20) + i * kNodeBytes, 0));
  }
  return node;
}

TEST(NodeTest, BytesAreWhereThePictureHasThem) {
  EXPECT_EQ(offsetof(LeafNode, entries), 40u);
  EXPECT_EQ(offsetof(InternalNode, entries), 40u);
  LeafNode leaf = NewLeaf();
  leaf.entries[1].Set(Key{0x0807060504030201}, Value{0x1817161514131211});
  std::array<unsigned char, kNodeBytes> bytes;
  std::memcpy(bytes.data(), &leaf, sizeof leaf);
  const unsigned char* const entry = &bytes[40 + 18];
  EXPECT_EQ(entry[0], 0x11) << "used, version 1";
  EXPECT_EQ(entry[1], 0x01);
  EXPECT_EQ(entry[8], 0x08);
  EXPECT_EQ(entry[9], 0x11);
  EXPECT_EQ(entry[16], 0x18);
  EXPECT_EQ(entry[17], 0x01) << "version 1";
}

TEST(NodeTest, AnEntryIsConsistentIfItsVersionsAreEqual) {
  LeafNode leaf = NewLeaf();
  LeafEntry& entry = leaf.entries[0];
  for (uint64_t i = 0; i < 40; ++i) {
    const LeafEntry before = entry;
    if (i % 4 == 3) {
      entry.Clear();
    } else {
      entry.Set(Key{1}, Value{i});
    }
    EXPECT_TRUE(entry.is_consistent());
    LeafEntry torn = entry;
    torn.rear = before.rear;
    EXPECT_FALSE(torn.is_consistent());
    EXPECT_EQ(leaf.Find(Key{1}) != nullptr, i % 4 != 3);
  }
}

TEST(NodeTest, ANodeIsConsistentIfItsVersionsAreEqual) {
  LeafNode leaf = NewLeaf();
  for (int i = 0; i < 40; ++i) {
    const LeafNode before = leaf;
    leaf.BumpVersion();
    EXPECT_TRUE(leaf.is_consistent());
    LeafNode torn = leaf;
    torn.rear_version = before.rear_version;
    EXPECT_FALSE(torn.is_consistent());
  }
}

TEST(NodeTest, ALeafSplitsInTheMiddleOfItsKeys) {
  LeafNode leaf = NewLeaf();
  leaf.header.sibling = 77 * kNodeBytes;
  for (uint64_t i = kLeafEntries; i > 0; --i) leaf.FindUnused()->Set(Key{i}, Value{i * 3});
  EXPECT_EQ(leaf.FindUnused(), nullptr);
  LeafNode sibling{};
  const RemotePtr pointer(ServerId{1}, 1 << 20, 0);
  leaf.Split(sibling, pointer);
  EXPECT_EQ(leaf.header.high, sibling.header.low);
  EXPECT_EQ(sibling.header.low, Key{kLeafEntries / 2 + 1});
  EXPECT_EQ(sibling.header.high, kNoBound);
  EXPECT_EQ(leaf.header.sibling, pointer.word());
  EXPECT_EQ(sibling.header.sibling, 77u * kNodeBytes);
  for (uint64_t i = 1; i <= kLeafEntries; ++i) {
    const bool is_left = leaf.header.Covers(Key{i});
    EXPECT_NE(is_left, sibling.header.Covers(Key{i}));
    EXPECT_EQ(leaf.Find(Key{i}) != nullptr, is_left);
    const LeafEntry* const found = (is_left ? leaf : sibling).Find(Key{i});
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->value(), Value{i * 3});
  }
}

TEST(NodeTest, TheLastKeyIsInTheLastNode) {
  const NodeHeader last = NewLeaf().header;
  EXPECT_TRUE(last.Covers(kLeastKey));
  EXPECT_TRUE(last.Covers(kNoBound)) << "as a key";
}

TEST(NodeTest, AnInternalNodeLeadsToTheChildOfAKey) {
  InternalNode node = FullNode();
  EXPECT_TRUE(node.is_full() && node.is_usable());
  EXPECT_EQ(node.ChildIndex(Key{9}), 0u);
  EXPECT_EQ(node.ChildIndex(Key{10}), 1u);
  EXPECT_EQ(node.ChildIndex(Key{619}), 61u);
  EXPECT_EQ(node.child(0).offset(), 1u << 20);
  EXPECT_EQ(node.child(61).offset(), (1u << 20) + 61 * kNodeBytes);
}

TEST(NodeTest, AnInternalNodeSplitsAtItsMiddleSeparator) {
  InternalNode node = FullNode();
  const InternalNode whole = node;
  InternalNode sibling{};
  node.Split(sibling, RemotePtr(ServerId{0}, 1 << 21, 0));
  EXPECT_TRUE(node.is_usable() && sibling.is_usable());
  EXPECT_EQ(sibling.header.level, 1);
  EXPECT_EQ(node.header.entries + sibling.header.entries, kInternalEntries - 1);
  for (uint64_t key = 0; key < 700; ++key) {
    const InternalNode& half = node.header.Covers(Key{key}) ? node : sibling;
    EXPECT_TRUE(half.header.Covers(Key{key}));
    EXPECT_EQ(half.child(half.ChildIndex(Key{key})), whole.child(whole.ChildIndex(Key{key})));
  }
}

TEST(NodeTest, OtherBytesAreNoInternalNode) {
  InternalNode node = FullNode();
  std::swap(node.entries[3], node.entries[4]);
  EXPECT_FALSE(node.is_usable()) << "not in order";
  node = FullNode();
  node.entries[7].child = 0;
  EXPECT_FALSE(node.is_usable()) << "no child";
  node = FullNode();
  node.header.entries = kInternalEntries + 1;
  EXPECT_FALSE(node.is_usable()) << "more entries than fit";
  node = FullNode();
  node.header.high = Key{600};
  EXPECT_FALSE(node.is_usable()) << "separators beyond the fence";
}

}  // namespace
}  // namespace gossamer::sherman
