#include "memory/region_checker.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "common/fabric/shm/shared_copy.h"
#include "common/random.h"
#include "common/testing/seed.h"
#include "proto/internal_node.h"
#include "proto/leaf_test_support.h"
#include "proto/region.h"
#include "proto/value_block.h"

namespace gossamer {
namespace {

using control::ExtentKind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kRegionBytes = uint64_t{1} << 20;
constexpr uint64_t kNodes = 64 << 10;    // where memory for nodes begins,
constexpr uint64_t kBlocks = 512 << 10;  // and for blocks; as long each
constexpr uint64_t kExtentBytes = 256 << 10;
constexpr std::chrono::milliseconds kPatience{200};

// A region of server 2, of which two extents are handed out, with nodes as clients write them.
class RegionCheckerTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  LivingRegion Region() {
    LivingRegion region;
    region.parameters = parameters_;
    region.server = kServer;
    region.bytes = region_;
    region.next_extent = [this](uint64_t from) {
      const std::lock_guard guard(mutex_);
      std::optional<ChunkAllocator::Extent> next;
      for (ChunkAllocator::Extent extent : extents_) {
        const uint64_t end = extent.offset + extent.bytes;
        if (next || end <= from) continue;
        extent.offset = std::max(extent.offset, from);
        extent.bytes = end - extent.offset;
        next = extent;
      }
      return next;
    };
    return region;
  }
  static ChunkAllocator::Extent ExtentOf(uint64_t offset, ExtentKind kind, uint16_t next_of_nodes,
                                         uint8_t next_of_blocks = 0) {
    return {offset, kExtentBytes, {}, kind, {next_of_nodes, next_of_blocks}};
  }
  // Offset and name of each.
  std::vector<std::string> LookAt(uint64_t offset) { return Names(DamageFinder(Region()), offset); }
  static std::vector<std::string> Names(DamageFinder finder, uint64_t offset) {
    std::vector<std::string> names;
    for (const Damage& damage : finder.LookAtNode(offset)) {
      names.push_back(fmt::format("{} {}", damage.offset, damage.what));
    }
    return names;
  }

  // The node in the extent of nodes.
  RemotePtr NodeAt(uint32_t index, uint8_t generation = 0) const {
    return RemotePtr(kServer, kNodes + uint64_t{index} * GetParam(), generation);
  }
  void Write(uint64_t offset, std::span<const std::byte> bytes) {
    shm::SharedCopy(region_.data() + offset, bytes.data(), bytes.size());
  }
  std::vector<std::byte> Leaf(RemotePtr leaf, const std::vector<Entry>& entries,
                              uint32_t version = 1, const std::string& low = "k",
                              const std::string& high = "kz") const {
    const test::LeafImage image{.node_bytes = GetParam(),
                                .leaf = leaf,
                                .version = NodeVersion{version},
                                .range = {low, HighFence::At(high)}};
    return image.TryEncode(entries).value();
  }
  // With entries in most units.
  std::vector<std::byte> FullLeaf(RemotePtr leaf, uint32_t version = 1,
                                  const std::string& low = "k",
                                  const std::string& high = "kz") const {
    std::vector<std::string> keys;
    for (uint32_t i = 0; i < 2 * geometry_.units(); ++i) keys.push_back(low + std::to_string(i));
    std::vector<Entry> entries;
    for (const std::string& key : keys) entries.push_back({key, "value"});
    return Leaf(leaf, entries, version, low, high);
  }
  std::vector<std::byte> Parent(RemotePtr self, const std::vector<InternalNode::Child>& children,
                                uint8_t level = 1, bool frozen = false) const {
    InternalNode node;
    node.level = level;
    node.frozen = frozen;
    node.children = children;
    std::vector<std::byte> bytes(GetParam());
    EXPECT_TRUE(EncodeInternal(bytes, self, node));
    return bytes;
  }
  void Freeze(RemotePtr leaf) {
    SetFrozen(std::span(region_).subspan(leaf.offset(), GetParam()), leaf, geometry_, "k", true);
  }
  void Flip(uint64_t offset) { region_[offset] ^= std::byte{0x10}; }
  std::string Named(RemotePtr leaf, uint32_t unit) const {
    return fmt::format("{} unit {} of a leaf", leaf.offset() + geometry_.unit_offset(unit), unit);
  }

  static constexpr ServerId kServer{2};
  const StoreParameters parameters_{GetParam(), 32, 16};
  const LeafGeometry geometry_{parameters_};
  std::vector<std::byte> region_{kRegionBytes};
  std::mutex mutex_;
  std::vector<ChunkAllocator::Extent> extents_{ExtentOf(kNodes, ExtentKind::kNodes, 0),
                                               ExtentOf(kBlocks, ExtentKind::kBlocks, 0)};
};
INSTANTIATE_TEST_SUITE_P(All, RegionCheckerTest, ::testing::Values(256, 1024, 4096));

// ---- Nodes

TEST_P(RegionCheckerTest, SoundNodesAreNoDamage) {
  EXPECT_THAT(LookAt(NodeAt(0).offset()), IsEmpty()) << "never written";
  for (const uint8_t generation : {0, 1, 200, 255}) {
    const RemotePtr leaf = NodeAt(1, generation);
    Write(leaf.offset(), FullLeaf(leaf));
    EXPECT_THAT(LookAt(leaf.offset()), IsEmpty());
    Freeze(leaf);
    EXPECT_THAT(LookAt(leaf.offset()), IsEmpty());
    const RemotePtr parent = NodeAt(2, generation);
    Write(parent.offset(), Parent(parent, {{Key("k"), leaf}}));
    EXPECT_THAT(LookAt(parent.offset()), IsEmpty());
  }
}

TEST_P(RegionCheckerTest, EachByteOfALeafIsChecked) {
  const RemotePtr leaf = NodeAt(3, 7);
  Write(leaf.offset(), FullLeaf(leaf));
  for (uint32_t at = 0; at < GetParam(); ++at) {
    const uint32_t unit = at / geometry_.unit_bytes();
    Flip(leaf.offset() + at);
    if (at >= geometry_.trailer_offset()) {
      // Of the first byte of the low fence, the prefix of all units, nothing is left to go by.
      const bool is_prefix = at == geometry_.trailer_offset() + offsetof(Trailer, low) + 1;
      const std::string trailer =
          fmt::format("{} the trailer of a leaf", leaf.offset() + geometry_.trailer_offset());
      if (is_prefix) {
        EXPECT_THAT(LookAt(leaf.offset()), IsEmpty());
      } else {
        EXPECT_THAT(LookAt(leaf.offset()), ElementsAre(trailer)) << at;
      }
    } else if (unit < geometry_.units()) {
      EXPECT_THAT(LookAt(leaf.offset()), ElementsAre(Named(leaf, unit))) << at;
    } else {
      EXPECT_THAT(LookAt(leaf.offset()), IsEmpty()) << "nothing is there";
    }
    Flip(leaf.offset() + at);
  }
}

// As a WRITE of the whole leaf may leave it if it is cut.
TEST_P(RegionCheckerTest, UnitsOfTwoVersionsAreDamage) {
  const RemotePtr leaf = NodeAt(3, 7);
  Write(leaf.offset(), FullLeaf(leaf, 5));
  const std::vector<std::byte> next = FullLeaf(leaf, 6);
  Write(leaf.offset(), std::span(next).first(geometry_.unit_bytes()));
  EXPECT_THAT(LookAt(leaf.offset()),
              ElementsAre(fmt::format("{} the version of unit 0 of a leaf", leaf.offset())));
}

TEST_P(RegionCheckerTest, WhatWasThereBeforeIsNotJudged) {
  const RemotePtr leaf = NodeAt(3, 7);
  Write(leaf.offset(), FullLeaf(leaf));
  Flip(leaf.offset() + 20);
  for (const uint16_t next : {0, 7}) {
    extents_[0] = ExtentOf(kNodes, ExtentKind::kNodes, next);
    EXPECT_THAT(LookAt(leaf.offset()), ElementsAre(Named(leaf, 0)));
  }
  extents_[0] = ExtentOf(kNodes, ExtentKind::kNodes, 8);
  EXPECT_THAT(LookAt(leaf.offset()), IsEmpty()) << "of another use of the memory";
  extents_[0] = ExtentOf(kNodes, ExtentKind::kBlocks, 0);
  EXPECT_THAT(LookAt(leaf.offset()), IsEmpty()) << "handed out for blocks";
  extents_[0] = ExtentOf(kNodes, ExtentKind::kNodes, 0);
  extents_[0].is_waiting = true;
  EXPECT_THAT(LookAt(leaf.offset()), IsEmpty()) << "given back";
  extents_[0] = ExtentOf(kNodes + kExtentBytes / 2, ExtentKind::kNodes, 0);
  EXPECT_THAT(LookAt(leaf.offset()), IsEmpty()) << "free";
}

// Any bytes: of blocks, and of nodes that blocks have overwritten in part.
TEST_P(RegionCheckerTest, OtherBytesAreNoNodes) {
  Random random(TestSeed(), 0);
  for (int i = 0; i < 300; ++i) {
    const RemotePtr at = NodeAt(4);
    std::vector<std::byte> bytes(GetParam());
    const uint64_t some = random.Below(bytes.size());
    for (size_t j = 0; j < some; ++j) bytes[j] = static_cast<std::byte>(random.Below(256));
    Write(at.offset(), bytes);
    EXPECT_THAT(LookAt(at.offset()), IsEmpty());
  }
}

TEST_P(RegionCheckerTest, ALongPrefixIsKnownFromTheParentAlone) {
  const std::string low = "a prefix of more than 18 bytes";
  const RemotePtr leaf = NodeAt(3);
  Write(leaf.offset(), FullLeaf(leaf, 1, low, low + "z"));
  EXPECT_THAT(LookAt(leaf.offset()), IsEmpty());
  const RemotePtr parent = NodeAt(9);
  Write(parent.offset(), Parent(parent, {{Key(low), leaf}}));
  EXPECT_THAT(LookAt(parent.offset()), IsEmpty());
  Flip(leaf.offset() + geometry_.unit_offset(1) + 30);
  EXPECT_THAT(LookAt(leaf.offset()), IsEmpty()) << "nobody knows";
  EXPECT_THAT(LookAt(parent.offset()), ElementsAre(Named(leaf, 1)));
}

TEST_P(RegionCheckerTest, ANodeOfWhichNothingIsLeftIsMissedByItsParent) {
  const RemotePtr leaf = NodeAt(1, 3);
  const RemotePtr parent = NodeAt(2, 3);
  const RemotePtr root = NodeAt(3, 3);
  Write(parent.offset(),
        Parent(parent, {{Key(""), leaf}, {Key("m"), RemotePtr(ServerId{1}, 0, 0)}}));
  Write(root.offset(), Parent(root, {{Key(""), parent}}, 2));
  const std::string missed = fmt::format("{} a node as a whole", leaf.offset());
  EXPECT_THAT(LookAt(parent.offset()), ElementsAre(missed)) << "zeros";
  EXPECT_THAT(LookAt(root.offset()), IsEmpty());
  // It is there, or it has become another node.
  Write(leaf.offset(), FullLeaf(leaf));
  EXPECT_THAT(LookAt(parent.offset()), IsEmpty());
  for (const auto& other : {FullLeaf(NodeAt(1, 4)), Parent(NodeAt(1, 4), {{Key(""), leaf}}),
                            Parent(NodeAt(1, 3), {{Key(""), leaf}})}) {
    Write(leaf.offset(), other);
    EXPECT_THAT(LookAt(parent.offset()), IsEmpty());
  }
  Write(leaf.offset(), std::vector<std::byte>(GetParam(), std::byte{5}));
  EXPECT_THAT(LookAt(parent.offset()), ElementsAre(missed));
  // Not if the parent is not in use, or the memory is that of another use.
  Write(parent.offset(), Parent(parent, {{Key(""), leaf}}, 1, true));
  EXPECT_THAT(LookAt(parent.offset()), IsEmpty());
  Write(parent.offset(), Parent(parent, {{Key(""), leaf}}));
  extents_[0] = ExtentOf(kNodes, ExtentKind::kNodes, 4);
  EXPECT_THAT(LookAt(parent.offset()), IsEmpty());
  extents_[0] = ExtentOf(kNodes, ExtentKind::kNodes, 0);
  Flip(parent.offset() + 9);
  EXPECT_THAT(LookAt(parent.offset()), IsEmpty());
  EXPECT_THAT(LookAt(root.offset()),
              ElementsAre(fmt::format("{} a node as a whole", parent.offset())));
}

// ---- Blocks

TEST_P(RegionCheckerTest, EachByteOfABlockIsChecked) {
  const BlockPtr pointer(kServer, kBlocks + 640, 9);
  std::vector<std::byte> block(BlockReadBytes(300));
  const BlockRef ref = EncodeBlock(pointer, std::string(300, 'v'), block.data());
  Write(pointer.offset(), block);
  const RemotePtr leaf = NodeAt(1);
  const std::string_view stored(reinterpret_cast<const char*>(&ref), sizeof ref);
  const std::vector<Entry> entries = {{"k1", stored, Entry::Kind::kBlock}};
  Write(leaf.offset(), Leaf(leaf, entries));
  EXPECT_THAT(LookAt(leaf.offset()), IsEmpty());
  const std::string damage = fmt::format("{} a value block of 300 bytes", pointer.offset());
  for (uint32_t at = 0; at < block.size(); ++at) {
    Flip(pointer.offset() + at);
    EXPECT_THAT(LookAt(leaf.offset()), ElementsAre(damage)) << at;
    Flip(pointer.offset() + at);
  }
  Flip(pointer.offset() + 99);
  for (const auto& [next, found] : {std::pair(9, 1), {10, 0}}) {
    extents_[1] = ExtentOf(kBlocks, ExtentKind::kBlocks, 0, static_cast<uint8_t>(next));
    EXPECT_THAT(LookAt(leaf.offset()), SizeIs(found));
  }
  extents_[1] = ExtentOf(kBlocks, ExtentKind::kNodes, 0);
  EXPECT_THAT(LookAt(leaf.offset()), IsEmpty()) << "its memory is used for nodes";
  extents_[1] = ExtentOf(kBlocks, ExtentKind::kBlocks, 0);
  Freeze(leaf);
  EXPECT_THAT(LookAt(leaf.offset()), IsEmpty()) << "the leaf is not in use";
}

// A leaf that nothing leads to may name it.
TEST_P(RegionCheckerTest, AnotherBlockInThePlaceIsNoDamage) {
  const BlockPtr pointer(kServer, kBlocks, 1);
  std::vector<std::byte> block(BlockReadBytes(300));
  const BlockRef ref = EncodeBlock(pointer, std::string(300, 'v'), block.data());
  const RemotePtr leaf = NodeAt(1);
  const std::string_view stored(reinterpret_cast<const char*>(&ref), sizeof ref);
  const std::vector<Entry> entries = {{"k1", stored, Entry::Kind::kBlock}};
  Write(leaf.offset(), Leaf(leaf, entries));
  EXPECT_THAT(LookAt(leaf.offset()), IsEmpty()) << "zeros";
  for (const uint32_t length : {0, 10, 300, 2000}) {
    std::vector<std::byte> other(BlockReadBytes(length));
    EncodeBlock(BlockPtr(kServer, kBlocks, 2), std::string(length, 'w'), other.data());
    Write(kBlocks, other);
    EXPECT_THAT(LookAt(leaf.offset()), IsEmpty()) << length;
  }
}

// ---- In the background

TEST_P(RegionCheckerTest, CountsWhatIsDamaged) {
  for (uint32_t i = 0; i < 40; ++i) Write(NodeAt(i).offset(), FullLeaf(NodeAt(i)));
  Flip(NodeAt(5).offset() + 3);
  Flip(NodeAt(7).offset() + geometry_.trailer_offset());
  RegionChecker checker(Region(), {kPatience});
  ASSERT_TRUE(checker.Start());
  while (!checker.report().is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(checker.report(), (RegionCheck{kExtentBytes, kExtentBytes, 2, true}));
}

TEST_P(RegionCheckerTest, KeepsToItsRateAndEndsAtOnce) {
  const auto began = std::chrono::steady_clock::now();
  {
    RegionCheckOptions options;
    options.bytes_per_second = 1;  // 3 days
    RegionChecker checker(Region(), options);
    ASSERT_TRUE(checker.Start());
    while (checker.report().bytes == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(checker.report().is_over);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::hours(1));
}

// Threads in place of clients: they write units and whole leaves, and use the memory of leaves
// again.
TEST_P(RegionCheckerTest, WhatChangesIsNoDamage) {
  std::atomic<bool> is_over = false;
  std::vector<std::thread> writers;
  for (uint32_t writer = 0; writer < 2; ++writer) {
    writers.emplace_back([&, writer] {
      Random random(TestSeed(), writer);
      uint8_t generation = 0;
      for (uint32_t version = 1; !is_over; ++version) {
        const uint32_t index = 2 * static_cast<uint32_t>(random.Below(8)) + writer;
        if (random.Below(50) == 0 && generation < 250) ++generation;
        const RemotePtr leaf = NodeAt(index, generation);
        const std::vector<std::byte> image = FullLeaf(leaf, version);
        Write(leaf.offset(), image);
        for (uint32_t i = 0; i < 3; ++i) {
          const uint64_t unit =
              geometry_.unit_offset(static_cast<uint32_t>(random.Below(geometry_.units())));
          Write(leaf.offset() + unit, std::span(image).subspan(unit, geometry_.unit_bytes()));
        }
        if (random.Below(1000) == 0) std::this_thread::yield();
      }
    });
  }
  for (int round = 0; round < 20; ++round) {
    RegionChecker checker(Region(), {kPatience});
    ASSERT_TRUE(checker.Start());
    while (!checker.report().is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(checker.report().damaged, 0u);
  }
  is_over = true;
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace gossamer
