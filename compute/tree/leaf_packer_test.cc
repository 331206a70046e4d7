#include "compute/tree/leaf_packer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"
#include "compute/cache/leaf_hint.h"

namespace gossamer {
namespace {

// EncodeLeaf is the plain description of where entries go, and LAYOUT.md argues about it.
TEST(LeafPacker, PlacesAsEncodeLeafDoes) {
  Random random(TestSeed());
  const RemotePtr leaf(ServerId{0}, 8192, 0);
  size_t fitting = 0;
  size_t refused = 0;
  for (int round = 0; round < 4000; ++round) {
    const uint32_t node_bytes = uint32_t{512} << random.Below(3);
    const LeafGeometry geometry(node_bytes);
    const bool is_uniform = random.Below(2) == 0;
    std::map<std::string, std::string> content;
    for (uint64_t i = random.Below(node_bytes / 16); i != 0; --i) {
      const size_t key_bytes = is_uniform ? 8 : random.Below(12);
      std::string key;
      while (key.size() < key_bytes) key.push_back(static_cast<char>('a' + random.Below(8)));
      content[key] = std::string(is_uniform ? 8 : random.Below(16), 'v');
    }
    // In the order of their hashes: as good as any.
    std::map<uint64_t, Entry> by_hash;
    for (const auto& [key, value] : content) by_hash[KeyHash(key)] = {key, value, false};
    std::vector<Entry> entries;
    for (const auto& [hash, entry] : by_hash) entries.push_back(entry);
    const HighFence high = random.Below(2) == 0 ? HighFence() : HighFence::At("zz");
    const LeafContent content_of{NodeVersion{7}, "", high, RemotePtr(), entries};
    std::vector<std::byte> expected(node_bytes);
    std::vector<std::byte> image(node_bytes, std::byte{0xee});
    LeafPacker packer(geometry);
    const bool fits = EncodeLeaf(expected, leaf, geometry, content_of);
    ASSERT_EQ(packer.PlaceAll(entries, high), fits);
    ++(fits ? fitting : refused);
    if (!fits) continue;
    const uint64_t hint = packer.Encode(image, leaf, content_of);
    ASSERT_EQ(image, expected);
    const std::optional<LeafView> view = LeafView::Parse(image, leaf, geometry);
    ASSERT_TRUE(view);
    ASSERT_EQ(hint, HintOf(*view, geometry));
  }
  EXPECT_GT(fitting, 500u);
  EXPECT_GT(refused, 500u);
}

// The leaf ends before the first entry that EncodeLeaf refuses with the longest fence so far. It may end earlier where a
// fence is longer than those before it: what was placed before then stays in its units.
TEST(LeafPacker, PlacesAsManyAsFit) {
  Random random(TestSeed(), 1);
  const RemotePtr leaf(ServerId{0}, 8192, 0);
  size_t ended_by_room = 0;
  size_t ended_by_bytes = 0;
  size_t ended_early = 0;
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
    for (const auto& [key, value] : content) entries.push_back({key, value, false});
    const HighFence high = random.Below(2) == 0 ? HighFence() : HighFence::At("zzzzzz");
    const size_t begin = random.Below(entries.size());
    const size_t most = random.Below(2) == 0 ? LeafPacker::kNoLimit : 1 + random.Below(node_bytes);
    size_t expected = begin;
    size_t bytes = 0;
    size_t fence = 0;
    bool has_grown = false;
    for (; expected < entries.size(); ++expected) {
      const bool is_last = expected + 1 == entries.size();
      bytes += LeafPacker::BytesOf(entries[expected]);
      if (expected != begin && bytes > most) break;
      const size_t needed =
          is_last ? (high.infinite ? 0 : high.key.size())
                  : Separator(entries[expected].key, entries[expected + 1].key).size();
      has_grown = has_grown || (expected != begin && needed > fence);
      fence = std::max(fence, needed);
      const std::span<const Entry> placed = std::span(entries).subspan(begin, expected + 1 - begin);
      const HighFence longest = HighFence::At(std::string(fence, 'z'));
      std::vector<std::byte> image(node_bytes);
      if (!EncodeLeaf(image, leaf, geometry, {NodeVersion{7}, "", longest, RemotePtr(), placed})) {
        break;
      }
    }
    LeafPacker packer(geometry);
    const size_t end = packer.Place(entries, begin, most, high);
    ASSERT_LE(end, expected);
    ASSERT_TRUE(has_grown || end == expected);
    if (end != expected) ++ended_early;
    if (end != expected || end == entries.size()) continue;
    ++(bytes > most ? ended_by_bytes : ended_by_room);
  }
  EXPECT_GT(ended_by_room, 20u);
  EXPECT_GT(ended_by_bytes, 20u);
  EXPECT_LT(ended_early, 60u);
}

}  // namespace
}  // namespace gossamer
