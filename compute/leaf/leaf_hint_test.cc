#include "compute/leaf/leaf_hint.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"

namespace gossamer {
namespace {

constexpr RemotePtr kHintedLeaf(ServerId{3}, 0x12300, 7);

// A leaf filled with random 8-byte keys except for `room`. Its units are views of `image`.
struct Leaf {
  Leaf(uint32_t node_bytes, uint64_t stream, size_t room)
      : geometry(node_bytes), image(node_bytes) {
    Random random(TestSeed(), stream);
    while (TryEncode()) {
      keys.push_back(std::to_string(10'000'000 + random.Below(90'000'000)));
    }
    keys.resize(keys.size() - 1 - std::min(keys.size() - 1, room));
    EXPECT_TRUE(TryEncode());
    view = LeafView::Parse(image, kHintedLeaf, geometry, "");
  }
  bool TryEncode() {
    std::vector<Entry> entries;
    for (const std::string& key : keys) entries.push_back({key, "12345678"});
    LeafContent content;
    content.entries = entries;
    return EncodeLeaf(image, kHintedLeaf, geometry, content);
  }
  HintPatch Patch(uint32_t known) const {
    return PatchOf(geometry, known,
                   [this](uint32_t number) -> const GroupView& { return view->unit(number); });
  }

  LeafGeometry geometry;
  std::vector<std::byte> image;
  std::vector<std::string> keys;
  std::optional<LeafView> view;
};

bool IsTight(const Leaf& leaf, uint32_t unit) {
  const GroupView& group = leaf.view->unit(unit);
  std::vector<std::byte> out(leaf.geometry.unit_bytes());
  std::vector<Entry> entries;
  group.ForEach([&entries](const Entry& entry) { entries.push_back(entry); });
  entries.push_back({"12345678", "12345678"});
  return group.overflowed() || !EncodeGroup(out, kHintedLeaf, unit, group.version(), false,
                                            group.bounds(), entries, Keys::kWithoutPrefix);
}

TEST(LeafHintTest, OfALeafReadWholeIsExactButForTheFilter) {
  for (uint64_t i = 0; i < 500; ++i) {
    const Leaf leaf(1024, i, i % 30);
    const LeafGeometry& geometry = leaf.geometry;
    const LeafHint hint(HintOf(*leaf.view, geometry));
    const bool is_full = IsTight(leaf, geometry.overflow_unit());
    for (uint32_t group = 0; group < geometry.groups(); ++group) {
      ASSERT_EQ(hint.IsTight(group), IsTight(leaf, group));
      ASSERT_EQ(hint.IsFull(group), is_full && IsTight(leaf, group));
    }
    for (const std::string& key : leaf.keys) {
      const uint64_t hash = KeyHash(key);
      const uint32_t group = geometry.GroupOf(hash);
      const bool overflowed = !leaf.view->unit(group).Find(key);
      ASSERT_TRUE(!overflowed || hint.MayHaveOverflowed(hash, group));
      ASSERT_TRUE(IsTight(leaf, group) || !hint.MayHaveOverflowed(hash, group));
    }
  }
}

TEST(LeafHintTest, IsPutTogetherFromWhatIsSeen) {
  for (const uint32_t node_bytes : {256u, 512u, 1024u}) {
    const Leaf full(node_bytes, 1, 0);
    const Leaf empty(node_bytes, 2, 1000);
    const uint32_t overflow = full.geometry.overflow_unit();
    uint64_t hint = 0;
    // The overflow group gives the bits of the groups whose keys it holds.
    hint = full.Patch(1u << overflow).AppliedTo(hint);
    for (const std::string& key : full.keys) {
      const uint64_t hash = KeyHash(key);
      const uint32_t group = full.geometry.GroupOf(hash);
      if (full.view->unit(group).Find(key)) continue;
      EXPECT_TRUE(LeafHint(hint).MayHaveOverflowed(hash, group));
      EXPECT_TRUE(LeafHint(hint).IsFull(group));
    }
    for (uint32_t unit = 0; unit < overflow; ++unit) {
      hint = full.Patch(1u << unit).AppliedTo(hint);
    }
    EXPECT_EQ(hint, HintOf(*full.view, full.geometry));
    for (uint32_t unit = 0; unit <= overflow; ++unit) {
      hint = empty.Patch(1u << unit).AppliedTo(hint);
    }
    EXPECT_EQ(hint, 0u);
  }
}

TEST(LeafHintTest, OneOfSeveralGroupsThatShareABitDoesNotClearIt) {
  const Leaf empty(4096, 1, 1000);
  const uint32_t all = (1u << empty.geometry.units()) - 1;
  EXPECT_EQ(empty.Patch(1).AppliedTo(LeafHint::GroupBit(0)), LeafHint::GroupBit(0));
  EXPECT_EQ(empty.Patch(all).AppliedTo(LeafHint::GroupBit(0)), 0u);
  const Leaf full(4096, 2, 0);
  const LeafHint hint(HintOf(*full.view, full.geometry));
  for (uint32_t group = 0; group < full.geometry.groups(); ++group) {
    EXPECT_TRUE(hint.IsTight(group) || !IsTight(full, group));
  }
}

TEST(LeafHintTest, RoomIsThatForAnEntryOfMeanLength) {
  std::vector<std::byte> unit(164);
  std::vector<std::string> keys;
  std::vector<Entry> entries;
  for (size_t i = 0; i < 20; ++i) keys.push_back(fmt::format("k{}", 100 + i));
  for (size_t i = 0; i < 20; ++i) {
    entries.push_back({keys[i], i % 2 == 0 ? std::string_view("abcdefgh") : ""});
    if (!EncodeGroup(unit, kHintedLeaf, 0, NodeVersion{1}, false, {}, entries, Keys::kWhole)) break;
    const bool has_room = GroupView::Parse(unit, kHintedLeaf, 0, "")->HasRoomForAnother(164);
    EXPECT_EQ(has_room, entries.size() < 15) << entries.size();
  }
}

}  // namespace
}  // namespace gossamer
