#include "compute/tree/leaf_packer.h"

#include <gtest/gtest.h>

#include <map>
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

}  // namespace
}  // namespace gossamer
