// Entries that own their bytes, random entries, and images of units and leaves.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/leaf.h"
#include "proto/test_support.h"

namespace gossamer::test {

// What a leaf stores for a key.
struct Stored {
  std::string bytes;
  bool is_block = false;

  friend bool operator==(const Stored&, const Stored&) = default;
};

using Content = std::map<std::string, Stored>;

inline Stored StoredBlock(uint64_t pointer, uint32_t length, uint32_t checksum) {
  const BlockRef ref{pointer, length, checksum};
  return {std::string(reinterpret_cast<const char*>(&ref), sizeof ref), true};
}

inline std::vector<Entry> EntriesOf(const Content& content) {
  std::vector<Entry> entries;
  for (const auto& [key, stored] : content) entries.push_back({key, stored.bytes, stored.is_block});
  return entries;
}

inline Content ContentOf(const std::vector<Entry>& entries) {
  Content content;
  for (const Entry& entry : entries) {
    EXPECT_TRUE(
        content.emplace(entry.key, Stored{std::string(entry.stored), entry.is_block}).second);
  }
  return content;
}

inline Content ContentOf(const GroupView& group) {
  std::vector<Entry> entries;
  group.ForEach([&](const Entry& entry) { entries.push_back(entry); });
  return ContentOf(entries);
}

// The form of the keys and values of one random leaf.
struct Shape {
  uint32_t min_key = 0;
  uint32_t max_key = kMaxKeyBytes;
  uint32_t max_value = 16;
  bool uniform_keys = false;
  bool uniform_values = false;
  uint32_t blocks_one_in = 0;  // 0: none

  static Shape Any(Random& random, const StoreParameters& p) {
    Shape shape;
    shape.max_key = random.Between(1, p.max_key_bytes);
    shape.max_value = random.Below(p.inline_value_bytes + 1u);
    shape.uniform_keys = random.OneIn(2);
    shape.uniform_values = random.OneIn(2);
    shape.blocks_one_in = random.OneIn(2) ? random.Between(1, 4) : 0;
    return shape;
  }

  std::string Key(Random& random) const {
    return random.String(uniform_keys ? max_key : random.Between(min_key, max_key));
  }
  Stored Value(Random& random) const {
    if (blocks_one_in != 0 && random.OneIn(blocks_one_in)) {
      return StoredBlock(random.Word(), random.Below(kMaxValueBytes + 1),
                         static_cast<uint32_t>(random.Word()));
    }
    return {random.String(uniform_values ? max_value : random.Between(0, max_value)), false};
  }
};

inline HighFence RandomFence(Random& random) {
  switch (random.Below(4)) {
    case 0: return {};
    case 1: return HighFence::At("");
    case 2: return HighFence::At(random.String(kMaxKeyBytes));
    default: return HighFence::At(random.String(random.Between(1, kMaxKeyBytes)));
  }
}

struct UnitImage {
  uint32_t bytes = 164;
  RemotePtr leaf{ServerId{3}, 0x12300, 7};
  uint32_t number = 2;
  NodeVersion version{0x01020304};
  bool overflowed = false;
  HighFence high{};

  Bytes Encode(const Content& content) const {
    Bytes image(bytes, std::byte{0xee});
    EXPECT_TRUE(EncodeGroup(image, leaf, number, version, overflowed, high, EntriesOf(content)));
    return image;
  }
  std::optional<GroupView> Parse(const Bytes& image) const {
    return GroupView::Parse(image, leaf, number);
  }
};

inline constexpr RemotePtr kLeaf(ServerId{3}, 0x12300, 7);
inline constexpr RemotePtr kSibling(ServerId{3}, 0x45600, 1);

// The input and output of a whole leaf's encoding.
struct LeafImage {
  uint32_t node_bytes = 1024;
  RemotePtr leaf = kLeaf;
  NodeVersion version{9};
  std::string low{};
  HighFence high{};
  RemotePtr sibling = kSibling;

  LeafGeometry geometry() const { return LeafGeometry(node_bytes); }
  std::optional<Bytes> TryEncode(std::span<const Entry> entries) const {
    Bytes image(node_bytes, std::byte{0xee});
    const LeafContent content{version, low, high, sibling, entries};
    if (!EncodeLeaf(image, leaf, geometry(), content)) return std::nullopt;
    return image;
  }
  std::optional<LeafView> Parse(std::span<const std::byte> image) const {
    return LeafView::Parse(image, leaf, geometry());
  }
  std::optional<TrailerView> ParseTrailer(std::span<const std::byte> trailer) const {
    return TrailerView::Parse(trailer, leaf, geometry());
  }
  Bytes Unit(const Bytes& image, uint32_t unit) const {
    const auto at = image.begin() + geometry().unit_offset(unit);
    return {at, at + geometry().unit_bytes()};
  }
  Bytes Trailer(const Bytes& image) const {
    return {image.begin() + geometry().trailer_offset(), image.end()};
  }
};

class LeafTest : public SeededTest {
 protected:
  StoreParameters RandomParameters() {
    for (;;) {
      const StoreParameters p{kMinNodeBytes << random.Below(5),
                              static_cast<uint16_t>(random.Between(1, kMaxKeyBytes)),
                              static_cast<uint16_t>(random.Below(kMaxInlineValueBytes + 1))};
      if (IsStorable(p)) return p;
    }
  }
  LeafImage RandomLeaf(uint32_t node_bytes) {
    LeafImage leaf;
    leaf.node_bytes = node_bytes;
    leaf.leaf = RemotePtr::FromWord(random.Word());
    leaf.version = NodeVersion{static_cast<uint32_t>(random.Word())};
    leaf.low = random.String(random.Below(kMaxKeyBytes + 1));
    leaf.high = RandomFence(random);
    leaf.sibling = RemotePtr::FromWord(random.Word());
    return leaf;
  }
  // As many random entries as fit, inserted one by one.
  Content Fill(const LeafImage& leaf, const Shape& shape) {
    Content content;
    for (int failures = 0; failures < 4;) {
      Content larger = content;
      larger.insert_or_assign(shape.Key(random), shape.Value(random));
      if (larger.size() == content.size() || !leaf.TryEncode(EntriesOf(larger))) {
        ++failures;
      } else {
        content = std::move(larger);
      }
    }
    return content;
  }
};

// Updates the checksum of a unit after its bytes were changed.
inline void SealUnit(std::span<std::byte> unit, RemotePtr leaf, uint32_t number) {
  const uint32_t checksum = Crc32c(UnitSeed(leaf.word(), number), unit.subspan(sizeof(uint32_t)));
  std::memcpy(unit.data(), &checksum, sizeof checksum);
}

}  // namespace gossamer::test
