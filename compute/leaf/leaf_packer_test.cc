#include "compute/leaf/leaf_packer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"
#include "compute/leaf/leaf_hint.h"
#include "proto/testing/rounds.h"

namespace gossamer {
namespace {

// EncodeLeaf is the plain description of where entries go, and LAYOUT.md argues about it.
TEST(LeafPacker, PlacesAsEncodeLeafDoes) {
  Random random(TestSeed());
  const RemotePtr leaf(ServerId{0}, 8192, 0);
  size_t fitting = 0;
  size_t refused = 0;
  for (int round = 0; round < Rounds(4000); ++round) {
    const uint32_t node_bytes = uint32_t{512} << random.Below(3);
    const LeafGeometry geometry(node_bytes);
    const bool is_uniform = random.Below(2) == 0;
    const std::string prefix(random.Below(6), 'p');
    std::map<std::string, std::string> content;
    for (uint64_t i = random.Below(node_bytes / 16); i != 0; --i) {
      const size_t key_bytes = is_uniform ? 8 : prefix.size() + random.Below(12);
      std::string key = prefix;
      while (key.size() < key_bytes) key.push_back(static_cast<char>('a' + random.Below(8)));
      content[key] = std::string(is_uniform ? 8 : random.Below(16), 'v');
    }
    // In the order of their hashes: as good as any.
    std::map<uint64_t, Entry> by_hash;
    for (const auto& [key, value] : content) by_hash[KeyHash(key)] = {key, value};
    std::vector<Entry> entries;
    for (const auto& [hash, entry] : by_hash) entries.push_back(entry);
    const HighFence high = random.Below(2) == 0 ? HighFence() : HighFence::At(prefix + "zz");
    LeafContent content_of{NodeVersion{7}, prefix, high, RemotePtr(), entries};
    std::vector<std::byte> expected(node_bytes);
    std::vector<std::byte> image(node_bytes, std::byte{0xee});
    LeafPacker packer(geometry);
    const bool fits = EncodeLeaf(expected, leaf, geometry, content_of);
    ASSERT_EQ(packer.PlaceAll(content_of, LeafPacker::Own::kNever), fits);
    ++(fits ? fitting : refused);
    if (!fits) continue;
    const uint64_t hint = packer.Encode(image, leaf, content_of);
    ASSERT_EQ(image, expected);
    const std::optional<LeafView> view = LeafView::Parse(image, leaf, geometry, prefix);
    ASSERT_TRUE(view);
    ASSERT_EQ(hint, HintOf(*view, geometry));
  }
  EXPECT_GT(fitting, size_t{Rounds(500)});
  EXPECT_GT(refused, size_t{Rounds(500)});
}

// Entries whose keys share 60 bytes. Some have long keys.
class MixedKeys {
 public:
  MixedKeys(Random& random, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t number = random();
      std::string key = prefix + std::string(reinterpret_cast<const char*>(&number), sizeof number);
      key.append(random.Below(3) * 40, 'k');
      keys_.push_back(key);
      refs_.push_back({{64 * (i + 1), 300, 1}, KeyHash(key)});
    }
    for (size_t i = 0; i < count; ++i) {
      const bool is_long = keys_[i].size() > 100 && random.Below(2) == 0;
      const std::string_view ref(reinterpret_cast<const char*>(&refs_[i]), sizeof refs_[i]);
      entries.push_back({keys_[i], is_long ? ref : std::string_view("value"),
                         is_long ? Entry::Kind::kLong : Entry::Kind::kInline});
    }
  }

  const std::string prefix = std::string(60, 'p');
  std::vector<Entry> entries;

 private:
  std::vector<std::string> keys_;
  std::vector<LongRef> refs_;
};

TEST(LeafPacker, KnowsTheHintOfLongKeys) {
  Random random(TestSeed(), 2);
  const RemotePtr leaf(ServerId{0}, 8192, 0);
  const LeafGeometry geometry(StoreParameters{1024, kMaxKeyBytes, 16});
  size_t with_room = 0;
  size_t overflowed = 0;
  // Until enough of both kinds were looked at, whatever the seed.
  for (int round = 0; round < 1000 || with_room <= 500 || overflowed <= 100; ++round) {
    ASSERT_LT(round, 100'000);
    const MixedKeys keys(random, random.Below(20));
    const HighFence high = HighFence::At(keys.prefix + "\xff\xff");
    LeafContent content{NodeVersion{7}, keys.prefix, high, RemotePtr(), keys.entries};
    LeafPacker packer(geometry);
    if (!packer.PlaceAll(content, LeafPacker::Own::kNever)) continue;
    std::vector<std::byte> expected(geometry.node_bytes());
    ASSERT_TRUE(EncodeLeaf(expected, leaf, geometry, content));
    std::vector<std::byte> image(geometry.node_bytes());
    const LeafHint hint(packer.Encode(image, leaf, content));
    ASSERT_EQ(image, expected);

    const std::optional<LeafView> view = LeafView::Parse(image, leaf, geometry, keys.prefix);
    ASSERT_TRUE(view);
    for (uint32_t group = 0; group < geometry.groups(); ++group) {
      const GroupView& unit = view->unit(group);
      const bool has_room = unit.HasRoomForAnother(geometry.unit_bytes());
      ASSERT_EQ(hint.IsTight(group), unit.overflowed() || !has_room);
      with_room += has_room && unit.count() != 0 ? 1 : 0;
    }
    view->overflow().ForEach([&](const Entry& entry) {
      if (!entry.is_long()) return;
      const uint64_t hash = entry.key_hash();
      ++overflowed;
      ASSERT_TRUE(hint.MayHaveOverflowed(hash, geometry.GroupOf(hash)));
    });
    ASSERT_EQ(packer.Encode(image, leaf, content), HintOf(*view, geometry));
  }
  EXPECT_GT(with_room, 500u);
  EXPECT_GT(overflowed, 100u);
}

// The leaf ends before the first entry that EncodeLeaf refuses, with the longest fence so far and
// the shortest prefix. It may end earlier where a fence is longer than those before it, or a prefix
// shorter: what was placed before then stays in its units.
TEST(LeafPacker, PlacesAsManyAsFit) {
  Random random(TestSeed(), 1);
  const RemotePtr leaf(ServerId{0}, 8192, 0);
  size_t ended_by_room = 0;
  size_t ended_by_bytes = 0;
  size_t ended_early = 0;
  size_t took_all = 0;
  for (int round = 0; round < 300; ++round) {
    const uint32_t node_bytes = uint32_t{512} << random.Below(2);
    const LeafGeometry geometry(node_bytes);
    const bool is_uniform = random.Below(3) != 0;
    std::map<std::string, std::string> content;
    for (uint64_t i = 1 + random.Below(node_bytes / 8); i != 0; --i) {
      const size_t key_bytes = is_uniform ? 8 : 1 + random.Below(12);
      std::string key;
      while (key.size() < key_bytes) key.push_back(static_cast<char>('a' + random.Below(3)));
      content[key] = std::string(is_uniform ? 8 : random.Below(16), 'v');
    }
    std::vector<Entry> entries;
    for (const auto& [key, value] : content) entries.push_back({key, value});
    const HighFence high = random.Below(2) == 0 ? HighFence() : HighFence::At("zzzzzz");
    const size_t begin = random.Below(entries.size());
    // As if the leaf had just been split off from one that ends at its first key.
    const std::string low(entries[begin].key.substr(0, 1 + random.Below(6)));
    LeafPacker::Most most;
    if (random.Below(2) == 0) most.bytes = 1 + random.Below(node_bytes);
    if (random.Below(2) == 0) most.prefix_bytes = 0;
    size_t expected = begin;
    size_t bytes = 0;
    size_t prefix = kMaxKeyBytes;
    size_t fence = 0;
    bool has_grown = false;
    bool are_bytes_over = false;
    for (; expected < entries.size(); ++expected) {
      const bool is_last = expected + 1 == entries.size();
      const std::string end =
          !is_last        ? std::string(Separator(entries[expected].key, entries[expected + 1].key))
          : high.infinite ? std::string()
                          : std::string(high.key.view());
      const size_t common = is_last && high.infinite ? 0 : CommonBytes(low, end);
      const size_t needed = end.size() - common;
      has_grown = has_grown || (expected != begin && (needed > fence || common < prefix));
      fence = std::max(fence, needed);
      prefix = std::min(prefix, common);
      bytes += LeafPacker::BytesOf(entries[expected], 0);
      const size_t unstored = (expected + 1 - begin) * most.prefix_bytes.value_or(prefix);
      are_bytes_over = expected != begin && bytes - unstored > most.bytes;
      if (are_bytes_over) break;
      const std::span<const Entry> placed = std::span(entries).subspan(begin, expected + 1 - begin);
      // Fences that have just this prefix, and so long a fence behind it.
      const std::string below = low.substr(0, prefix);
      const HighFence longest =
          fence == 0 ? HighFence() : HighFence::At(below + std::string(fence, 'z'));
      std::vector<std::byte> image(node_bytes);
      if (!EncodeLeaf(image, leaf, geometry,
                      {NodeVersion{7}, below, longest, RemotePtr(), placed})) {
        break;
      }
    }
    LeafPacker packer(geometry);
    const auto [end, own] = packer.Place({entries, low, high, begin}, most);
    // Where the leaf takes all that is left, only the fences that it then has count.
    if (own.of != PrefixOf::kBoth || end > expected) {
      ASSERT_EQ(end, entries.size());
      ++took_all;
      continue;
    }
    ASSERT_TRUE(has_grown || end == expected);
    if (end != expected) ++ended_early;
    if (end != expected || end == entries.size()) continue;
    ++(are_bytes_over ? ended_by_bytes : ended_by_room);
  }
  EXPECT_GT(ended_by_room, 20u);
  EXPECT_GT(ended_by_bytes, 20u);
  EXPECT_LT(ended_early, 100u);
  EXPECT_LT(took_all, 100u);
}

}  // namespace
}  // namespace gossamer
