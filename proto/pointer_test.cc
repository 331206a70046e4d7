// Remote pointers, the root word and the lock word: single 64-bit words.
#include <fmt/core.h>

#include <algorithm>

#include "proto/lock_word.h"
#include "proto/remote_ptr.h"
#include "proto/test_support.h"

namespace gossamer {
namespace {

constexpr RemotePtr kPointer(ServerId{3}, 0x12300, 7);

TEST(RemotePtr, GoldenWords) {
  EXPECT_EQ(kPointer.word(), 0x0003000000012307u);
  EXPECT_EQ(BlockPtr(ServerId{0xffff}, 0x45640, 63).word(), 0xffff00000004567fu);
  EXPECT_EQ(RootWord(kPointer, 2).word(), 0x0003100000012307u);
}

TEST(RemotePtr, NullIsTheZeroWordOnly) {
  EXPECT_TRUE(RemotePtr().is_null());
  EXPECT_FALSE(RemotePtr(ServerId{1}, 0, 0).is_null());
  EXPECT_FALSE(RemotePtr(ServerId{0}, kNodeAlignment, 0).is_null());
}

template <typename Pointer>
void ExpectAllGenerationsOnce(Pointer pointer) {
  const Pointer first = pointer;
  for (uint64_t i = 0; i < Pointer::kGenerations; ++i) {
    EXPECT_EQ(pointer.generation(), (first.generation() + i) % Pointer::kGenerations);
    EXPECT_EQ(pointer.offset(), first.offset());
    EXPECT_EQ(pointer.server(), first.server());
    pointer = pointer.NextGeneration();
  }
  EXPECT_EQ(pointer, first);
}

TEST(RemotePtr, NextGenerationGoesRoundAndTouchesNothingElse) {
  ExpectAllGenerationsOnce(kPointer);
  ExpectAllGenerationsOnce(BlockPtr(ServerId{0xffff}, kMaxOffset & ~(kBlockAlignment - 1), 5));
}

class PointerTest : public test::SeededTest {};

TEST_F(PointerTest, PartsComeBack) {
  for (int i = 0; i < 10000; ++i) {
    const ServerId server{static_cast<uint16_t>(random.Word())};
    const uint64_t offset = random.Word() & kMaxOffset & ~(kNodeAlignment - 1);
    const auto generation = static_cast<uint8_t>(random.Word());
    const RemotePtr pointer(server, offset, generation);
    ASSERT_EQ(pointer.server(), server);
    ASSERT_EQ(pointer.offset(), offset);
    ASSERT_EQ(pointer.generation(), generation);
    ASSERT_EQ(RemotePtr::FromWord(pointer.word()), pointer);

    const uint32_t level = random.Below(RootWord::kMaxLevel + 1);
    const RootWord root(pointer, level);
    ASSERT_EQ(root.pointer(), pointer);
    ASSERT_EQ(root.level(), level);
    ASSERT_EQ(RootWord::FromWord(root.word()), root);
  }
}

TEST(LockWord, GoldenWord) {
  EXPECT_EQ(LockWord({ComputeId{0x1122}, 0x334455}, kPointer).word(), 0x1122334455000123u);
  EXPECT_EQ(LockWord().word(), 0u);
  EXPECT_TRUE(LockWord().is_free());
}

TEST(LockWord, PartsComeBackAndStayInTheirFields) {
  const RemotePtr highest(ServerId{0xffff}, kMaxOffset & ~(kNodeAlignment - 1), 255);
  const LockWord word({ComputeId{0xffff}, 0xffffff}, highest);
  EXPECT_EQ(word.word(), 0xffff'ffff'ff7f'ffffu);
  EXPECT_EQ(word.lease(), (Lease{ComputeId{0xffff}, 0xffffff}));
  EXPECT_EQ(word.node(), 0x7fffffu);
  EXPECT_FALSE(word.merges());
  EXPECT_EQ(word.ForMerge().word(), ~uint64_t{0});
  EXPECT_TRUE(word.ForMerge().merges());
  EXPECT_EQ(word.ForMerge().lease(), word.lease());
  EXPECT_EQ(word.ForMerge().node(), word.node());
  // An incarnation that exceeds 24 bits does not change the compute server's id.
  EXPECT_EQ(LockWord({ComputeId{1}, 0x1000002}, kPointer).lease(), (Lease{ComputeId{1}, 2}));
  EXPECT_FALSE(LockWord({ComputeId{1}, 0}, RemotePtr()).is_free());
}

// Part of the format: clients that disagree on a node's slot would not exclude each other.
TEST(LockSlot, GoldenOffsets) {
  const auto slot = [](uint64_t offset, uint64_t table) {
    return LockSlotOffset(RemotePtr(ServerId{1}, offset, 9), table);
  };
  EXPECT_EQ(slot(0x1000, 1 << 17), 0x113c8u);
  EXPECT_EQ(slot(0x2000, 1 << 17), 0x6290u);
  EXPECT_EQ(slot(0x2400, 1 << 17), 0x1f9c8u);
  EXPECT_EQ(slot(0x12300, 1 << 12), 0x780u);
  EXPECT_EQ(slot(kMaxOffset - 255, 1 << 20), 0x9ecd0u);
}

TEST_F(PointerTest, LockSlotsAreAlignedAndInBounds) {
  for (uint64_t bytes = 8; bytes <= uint64_t{1} << 35; bytes *= 2) {
    for (int i = 0; i < 1000; ++i) {
      const RemotePtr node = RemotePtr::FromWord(random.Word());
      const uint64_t offset = LockSlotOffset(node, bytes);
      ASSERT_EQ(offset % 8, 0u);
      ASSERT_LE(offset + 8, bytes);
      ASSERT_EQ(offset, LockSlotOffset(node.NextGeneration(), bytes));
    }
  }
}

// As many neighbouring nodes as there are slots: a random hash would use 63 % of the slots, the
// fullest with about 8 nodes. Nodes that share a slot contend without need.
TEST(LockSlot, NeighbouringNodesSpreadOverTheTable) {
  for (uint64_t table_bytes = 512; table_bytes <= 1 << 21; table_bytes *= 2) {
    for (uint64_t node_bytes = 256; node_bytes <= 4096; node_bytes *= 2) {
      std::vector<uint32_t> nodes_of_slot(table_bytes / 8);
      for (uint64_t i = 0; i < table_bytes / 8; ++i) {
        const RemotePtr node(ServerId{0}, 8192 + i * node_bytes, 0);
        ++nodes_of_slot[LockSlotOffset(node, table_bytes) / 8];
      }
      const auto unused = std::ranges::count(nodes_of_slot, 0u);
      const auto where = fmt::format("table {} nodes {}", table_bytes, node_bytes);
      EXPECT_LE(unused, static_cast<double>(table_bytes) / 8 * 0.45) << where;
      EXPECT_LE(std::ranges::max(nodes_of_slot), 12u) << where;
    }
  }
}

}  // namespace
}  // namespace gossamer
