// Entries that own their bytes, random entries, and images of units and leaves.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "proto/leaf.h"
#include "proto/test_support.h"

namespace gossamer::test {

// What a leaf stores for a key.
struct Stored {
  std::string bytes;
  Entry::Kind kind = Entry::Kind::kInline;
  uint64_t expires_at = 0;

  Entry For(KeyView key) const { return {key, bytes, kind, expires_at}; }

  friend bool operator==(const Stored&, const Stored&) = default;
};

using Content = std::map<std::string, Stored>;

inline Stored StoredBlock(uint64_t pointer, uint32_t length, uint32_t checksum) {
  const BlockRef ref{pointer, length, checksum};
  return {std::string(reinterpret_cast<const char*>(&ref), sizeof ref), Entry::Kind::kBlock};
}
inline Stored StoredLong(uint64_t pointer, uint32_t length, uint32_t checksum, KeyView key) {
  const LongRef ref{{pointer, length, checksum}, KeyHash(key)};
  return {std::string(reinterpret_cast<const char*>(&ref), sizeof ref), Entry::Kind::kLong};
}

// The longest that a leaf stores whole: a key, if there is no prefix, and a fence behind the
// prefix.
inline uint32_t LongestKey(const StoreParameters& p) { return LeafGeometry(p).max_suffix_bytes(); }
inline uint32_t LongestFence(const StoreParameters& p) {
  return std::min<uint32_t>(p.max_key_bytes, kMaxFenceBytes);
}

inline std::vector<Entry> EntriesOf(const Content& content) {
  std::vector<Entry> entries;
  for (const auto& [key, stored] : content) entries.push_back(stored.For(key));
  return entries;
}

inline Content ContentOf(const std::vector<Entry>& entries) {
  Content content;
  for (const Entry& entry : entries) {
    const Stored stored{std::string(entry.stored), entry.kind, entry.expires_at};
    EXPECT_TRUE(content.emplace(entry.key, stored).second);
  }
  return content;
}

inline Content ContentOf(const GroupView& group) {
  std::vector<Entry> entries;
  KeyArena keys;
  group.ForEach([&](const Entry& entry) {
    entries.push_back(entry);
    entries.back().key = keys.Join(group.prefix(), entry.key);
  });
  return ContentOf(entries);
}

// The range of a leaf.
struct Range {
  std::string low{};
  HighFence high{};
  OwnPrefix own{};

  Bounds bounds() const { return Bounds::Of(low, high, own); }
  // Whether the leaf may have `key`.
  bool Has(KeyView key) const {
    return key >= low && high.Admits(key) && key.starts_with(bounds().prefix);
  }
};

// Often with a common prefix. At least a quarter of the strings that start with the low fence are
// in the range.
inline Range RandomRange(Random& random) {
  Range range;
  if (random.OneIn(2)) range.low = random.String(random.Below(kMaxFenceBytes));
  if (random.OneIn(3)) return range;
  if (random.OneIn(4)) range.low = random.String(random.Below(kMaxKeyBytes));
  const auto room =
      std::min<uint32_t>(kMaxFenceBytes, static_cast<uint32_t>(kMaxKeyBytes - range.low.size()));
  const std::string rest = random.String(random.OneIn(3) ? room : random.Between(1, room));
  range.high =
      HighFence::At(range.low + static_cast<char>(random.Between(64, 255)) + rest.substr(1));
  return range;
}

// The same with a prefix of the leaf's own, if its fences admit one that fits into a unit.
inline Range WithOwnPrefix(Range range, Random& random) {
  constexpr size_t kMostBytes = 48;
  const size_t shared = range.bounds().prefix.size();
  const auto take = [&](PrefixOf of, size_t bytes) {
    const size_t more = bytes - shared;
    range.own = {of, shared + random.Between(1, static_cast<uint32_t>(more))};
  };
  const size_t high_bytes = range.high.infinite ? 0 : range.high.key.size();
  if (high_bytes > shared && high_bytes <= kMostBytes && random.OneIn(2)) {
    take(PrefixOf::kHighFence, high_bytes);
  } else if (range.low.size() > shared) {
    take(PrefixOf::kLowFence, range.low.size());
  }
  return range;
}

// The form of the keys and values of one random leaf.
struct Shape {
  std::string prefix{};  // of the keys, not counted in what follows
  uint32_t min_key = 0;
  uint32_t max_key = kMaxKeyBytes;
  uint32_t max_value = 16;
  bool uniform_keys = false;
  bool uniform_values = false;
  uint32_t blocks_one_in = 0;  // 0: none
  uint32_t longs_one_in = 0;   // long keys, likewise; of at most so many bytes behind the prefix:
  uint32_t longest = 0;
  uint32_t expires_one_in = 0;  // entries that expire, likewise

  static Shape Any(Random& random, const StoreParameters& p) {
    Shape shape;
    shape.expires_one_in = random.OneIn(2) ? random.Between(1, 4) : 0;
    const bool expires = shape.expires_one_in != 0;
    shape.max_key = random.Between(1, LeafGeometry(p).max_suffix_bytes(expires));
    shape.longest = p.max_key_bytes;
    shape.max_value = random.Below(p.inline_value_bytes + 1u);
    shape.uniform_keys = random.OneIn(2);
    shape.uniform_values = random.OneIn(2);
    shape.blocks_one_in = random.OneIn(2) ? random.Between(1, 4) : 0;
    return shape;
  }

  std::string Key(Random& random) const {
    const uint32_t bytes = uniform_keys ? max_key : random.Between(min_key, max_key);
    return prefix + random.String(std::min<uint32_t>(bytes, kMaxKeyBytes - prefix.size()));
  }
  Stored Value(Random& random) const { return WithExpiry(ValueAlone(random), random); }
  Stored ValueAlone(Random& random) const {
    if (blocks_one_in != 0 && random.OneIn(blocks_one_in)) {
      return StoredBlock(random.Word(), random.Below(kMaxValueBytes + 1),
                         static_cast<uint32_t>(random.Word()));
    }
    return {random.String(uniform_values ? max_value : random.Between(0, max_value))};
  }
  // Makes a long key of `key` now and then, and gives it a value.
  Stored ValueOf(std::string& key, Random& random) const {
    const size_t most = std::min<size_t>(kMaxKeyBytes, prefix.size() + longest);
    if (longs_one_in == 0 || !random.OneIn(longs_one_in) || most <= prefix.size() + max_key) {
      return Value(random);
    }
    key += random.String(random.Between(static_cast<uint32_t>(prefix.size()) + max_key + 1,
                                        static_cast<uint32_t>(most)) -
                         static_cast<uint32_t>(std::min(key.size(), most)));
    key.resize(std::min(key.size(), most));
    return WithExpiry(StoredLong(random.Word(), random.Below(kMaxValueBytes + 1),
                                 static_cast<uint32_t>(random.Word()), key),
                      random);
  }
  Stored WithExpiry(Stored stored, Random& random) const {
    if (expires_one_in != 0 && random.OneIn(expires_one_in)) {
      stored.expires_at = std::max<uint64_t>(1, random.Word() & (kComposite | kLatestExpiry));
    }
    return stored;
  }
};

struct UnitImage {
  uint32_t bytes = 164;
  RemotePtr leaf{ServerId{3}, 0x12300, 7};
  uint32_t number = 2;
  NodeVersion version{0x01020304};
  bool overflowed = false;
  Range range{};

  bool TryEncode(std::span<std::byte> out, const Content& content) const {
    return EncodeGroup(out, leaf, number, version, overflowed, range.bounds(), EntriesOf(content),
                       Keys::kWhole);
  }
  Bytes Encode(const Content& content) const {
    Bytes image(bytes, std::byte{0xee});
    EXPECT_TRUE(TryEncode(image, content));
    return image;
  }
  GroupSizer SizerOf(const Content& content) const {
    GroupSizer sizer(range.bounds());
    for (const Entry& entry : EntriesOf(content)) sizer.Add(entry);
    return sizer;
  }
  std::optional<GroupView> Parse(const Bytes& image) const {
    return GroupView::Parse(image, leaf, number, range.low);
  }
};

inline constexpr RemotePtr kLeaf(ServerId{3}, 0x12300, 7);
inline constexpr RemotePtr kSibling(ServerId{3}, 0x45600, 1);

// The input and output of a whole leaf's encoding.
struct LeafImage {
  uint32_t node_bytes = 1024;
  RemotePtr leaf = kLeaf;
  NodeVersion version{9};
  Range range{};
  RemotePtr sibling = kSibling;

  LeafGeometry geometry() const { return LeafGeometry(node_bytes); }
  std::optional<Bytes> TryEncode(std::span<const Entry> entries) const {
    Bytes image(node_bytes, std::byte{0xee});
    const LeafContent content{version, range.low, range.high, sibling, entries};
    if (!EncodeLeaf(image, leaf, geometry(), content)) return std::nullopt;
    return image;
  }
  std::optional<LeafView> Parse(std::span<const std::byte> image) const {
    return LeafView::Parse(image, leaf, geometry(), range.low);
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
    leaf.range = RandomRange(random);
    leaf.sibling = RemotePtr::FromWord(random.Word());
    return leaf;
  }
  // As many random entries in the leaf's range as fit, inserted one by one.
  Content Fill(const LeafImage& leaf, Shape shape) {
    shape.prefix = leaf.range.low;
    Content content;
    int failures = 0;
    for (int tries = 0; tries < 400 && failures < 4; ++tries) {
      std::string key = shape.Key(random);
      const Stored value = shape.ValueOf(key, random);
      if (!leaf.range.Has(key)) continue;
      Content larger = content;
      larger.insert_or_assign(key, value);
      if (larger.size() == content.size() || !leaf.TryEncode(EntriesOf(larger))) {
        ++failures;
      } else {
        content = std::move(larger);
      }
    }
    return content;
  }
};

}  // namespace gossamer::test
