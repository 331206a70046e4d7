// Leaves: groups of entries, an overflow group and a trailer, tied together by rule R2. LAYOUT.md
// draws the bytes.
//
// Bytes from remote memory become values only through `GroupView::Parse`, `TrailerView::Parse` and
// `LeafView::Parse`; nullopt means "reread". Accepted bytes need no further check. Views point into
// the bytes that they were parsed from.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "proto/checksum.h"
#include "proto/crc32c.h"
#include "proto/group.h"
#include "proto/group_encoding.h"
#include "proto/key.h"
#include "proto/key_arena.h"
#include "proto/leaf_geometry.h"
#include "proto/region.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// What any leaf stores itself, whatever its prefix. Longer keys may be long keys, and longer values
// go to blocks.
struct InlineLimits {
  size_t key_bytes;
  size_t expiring_key_bytes;  // of keys that may expire
  size_t value_bytes;

  size_t KeyBytes(bool expires) const { return expires ? expiring_key_bytes : key_bytes; }
  bool Admit(KeyView key, std::string_view value, bool expires) const {
    return key.size() <= KeyBytes(expires) && value.size() <= value_bytes;
  }
};

// The low fence as the trailer holds it: up to 18 B literally, longer ones as the first 14 bytes
// and the CRC32C of the whole. Readers know the fence from the path or the left neighbour, and only
// compare it (rule W4, scans, `check`).
struct LowFenceMark {
  static constexpr uint32_t kBytes = 18;

  uint8_t length = 0;
  std::array<char, kBytes> bytes{};

  static LowFenceMark Of(KeyView low) {
    LowFenceMark mark;
    mark.length = static_cast<uint8_t>(low.size());
    if (low.size() <= kBytes) {
      low.copy(mark.bytes.data(), low.size());
      return mark;
    }
    const uint32_t digest = Crc32c(0, std::as_bytes(std::span(low.data(), low.size())));
    std::memcpy(mark.bytes.data(), low.data(), kBytes - sizeof digest);
    std::memcpy(mark.bytes.data() + kBytes - sizeof digest, &digest, sizeof digest);
    return mark;
  }
  // The fence, if the mark is all of it.
  std::optional<KeyView> whole() const {
    return length <= kBytes ? std::optional(KeyView(bytes.data(), length)) : std::nullopt;
  }
  bool Matches(KeyView low) const {
    if (low.size() > kBytes) return *this == Of(low);
    return length == low.size() && KeyView(bytes.data(), length) == low;
  }

  friend bool operator==(const LowFenceMark&, const LowFenceMark&) = default;
};

struct Trailer {
  Checksum checksum;
  uint32_t version;
  uint8_t level;  // 0; with kFrozenBit: of a frozen leaf
  LowFenceMark low;
  uint64_t sibling;  // RemotePtr of the right neighbour; null at the right edge
};
static_assert(sizeof(LowFenceMark) == 19);
static_assert(offsetof(Trailer, low) == 13 && offsetof(Trailer, sibling) == 32 &&
              sizeof(Trailer) == kTrailerBytes);

class TrailerView {
 public:
  static constexpr uint8_t kFrozenBit = 0x80;

  // Requires: `bytes` are the last kTrailerBytes of the leaf at `leaf`.
  static std::optional<TrailerView> Parse(std::span<const std::byte> bytes, RemotePtr leaf,
                                          const LeafGeometry& geometry) {
    assert(bytes.size() >= kTrailerBytes);
    TrailerView view;
    std::memcpy(&view.trailer_, bytes.data(), sizeof(Trailer));
    if (ChecksumOf(UnitSeed(leaf, geometry.units()), bytes.first(kTrailerBytes)) !=
            view.trailer_.checksum ||
        (view.trailer_.level & ~kFrozenBit) != 0) {
      return std::nullopt;
    }
    return view;
  }

  NodeVersion version() const { return static_cast<NodeVersion>(trailer_.version); }
  RemotePtr sibling() const { return RemotePtr::FromWord(trailer_.sibling); }
  // As GroupView::frozen.
  bool frozen() const { return (trailer_.level & kFrozenBit) != 0; }
  const LowFenceMark& low() const { return trailer_.low; }

 private:
  TrailerView() = default;
  Trailer trailer_;
};

// ---- Whole leaves

// A leaf read whole: every unit accepted, all of one version and one range.
class LeafView {
 public:
  // `within`: as for GroupView::Parse.
  static std::optional<LeafView> Parse(std::span<const std::byte> node, RemotePtr leaf,
                                       const LeafGeometry& geometry, KeyView within) {
    std::optional<LeafView> view;
    const std::optional<TrailerView> trailer =
        TrailerView::Parse(node.subspan(geometry.trailer_offset()), leaf, geometry);
    if (!trailer) return view;
    view.emplace(Accepted(), *trailer, geometry.units());
    for (uint32_t number = 0; number < geometry.units(); ++number) {
      const std::optional<GroupView> unit = GroupView::Parse(
          node.subspan(geometry.unit_offset(number), geometry.unit_bytes()), leaf, number, within);
      if (!unit || unit->version() != trailer->version() ||
          (number != 0 && !unit->HasBoundsOf(view->units_[0]))) {
        view.reset();
        break;
      }
      view->units_[number] = *unit;
    }
    return view;
  }

  NodeVersion version() const { return trailer_.version(); }
  const TrailerView& trailer() const { return trailer_; }
  bool frozen() const { return trailer_.frozen(); }
  HighFence high() const { return units_[0].high(); }
  // Whether the leaf ends at `key`.
  bool EndsAt(KeyView key) const { return units_[0].EndsAt(key); }
  // As GroupView::prefix.
  KeyView prefix() const { return units_[0].prefix(); }
  const GroupView& unit(uint32_t number) const { return units_[number]; }
  const GroupView& overflow() const { return units_[unit_count_ - 1]; }
  uint32_t unit_count() const { return unit_count_; }
  uint32_t count() const {
    uint32_t total = 0;
    for (uint32_t unit = 0; unit < unit_count_; ++unit) total += units_[unit].count();
    return total;
  }
  // Appends all entries, unit by unit, those of the overflow group last. An entry may appear twice
  // if it was deleted in one unit and inserted in another during the read: the caller must drop the
  // second (rule R6). The keys are whole, in `arena` where they are not in the leaf; but of long
  // keys they are the first bytes.
  void AppendTo(std::vector<Entry>& entries, KeyArena& arena) const {
    for (uint32_t unit = 0; unit < unit_count_; ++unit) {
      units_[unit].ForEach([&](Entry entry) {
        entry.key = arena.Join(prefix(), entry.key);
        entries.push_back(entry);
      });
    }
  }

 private:
  // Only Parse can make one, so only Parse makes a LeafView.
  struct Accepted {
    explicit Accepted() = default;
  };

 public:
  LeafView(Accepted, const TrailerView& trailer, uint32_t units)
      : unit_count_(units), trailer_(trailer) {}

 private:
  GroupView units_[kMaxUnits];
  uint32_t unit_count_;
  TrailerView trailer_;
};

// The contents to encode as a leaf.
struct LeafContent {
  NodeVersion version{0};
  KeyView low;
  HighFence high;
  RemotePtr sibling;
  std::span<const Entry> entries;  // distinct whole keys within the fences, in any order
  OwnPrefix own{};                 // which all of them have

  Bounds bounds() const { return Bounds::Of(low, high, own); }
};

// Writes the trailer of a leaf to `out` (kTrailerBytes).
inline void EncodeTrailer(std::span<std::byte> out, RemotePtr leaf, const LeafGeometry& geometry,
                          const LeafContent& content) {
  const Trailer trailer{{},
                        static_cast<uint32_t>(content.version),
                        0,
                        LowFenceMark::Of(content.low),
                        content.sibling.word()};
  std::memcpy(out.data(), &trailer, sizeof trailer);
  Seal(UnitSeed(leaf, geometry.units()), out.first(kTrailerBytes));
}

// Writes a whole leaf to `out` (node_bytes). Places each entry, in the given order, into its home
// group, or into the overflow group when that is full. Returns false, and writes nothing, if the
// entries do not fit. Requires: entries do not point into `out`.
//
// Any part of a leaf's entries fits again under a high fence no longer than before, if passed in
// the order of LeafView::AppendTo. In another order, entries of different lengths may not fit, so a
// split passes them in that order (LAYOUT.md, "Why a split always leaves room").
inline bool EncodeLeaf(std::span<std::byte> out, RemotePtr leaf, const LeafGeometry& geometry,
                       const LeafContent& content) {
  struct Unit {
    GroupSizer sizer;
    std::array<Entry, GroupView::kMaxEntries> entries;
    bool overflowed = false;

    bool TryAdd(const Entry& entry, uint32_t limit) {
      GroupSizer larger = sizer;
      larger.Add(entry);
      if (larger.bytes() > limit || larger.count() > GroupView::kMaxEntries) return false;
      entries[sizer.count()] = entry;
      sizer = larger;
      return true;
    }
  };
  const Bounds bounds = content.bounds();
  std::vector<Unit> units(geometry.units(), Unit{GroupSizer(bounds), {}, false});
  Unit& overflow = units[geometry.overflow_unit()];
  for (const Entry& entry : content.entries) {
    Unit& home = units[geometry.GroupOf(entry.key_hash())];
    if (home.TryAdd(entry, geometry.unit_bytes())) continue;
    if (!overflow.TryAdd(entry, geometry.unit_bytes())) return false;
    home.overflowed = true;
  }

  std::memset(out.data(), 0, geometry.node_bytes());
  for (uint32_t number = 0; number < geometry.units(); ++number) {
    const Unit& unit = units[number];
    [[maybe_unused]] const bool fits =
        EncodeGroup(out.subspan(geometry.unit_offset(number), geometry.unit_bytes()), leaf, number,
                    content.version, unit.overflowed, bounds,
                    {unit.entries.data(), unit.sizer.count()}, Keys::kWhole);
    assert(fits);
  }
  EncodeTrailer(out.subspan(geometry.trailer_offset(), kTrailerBytes), leaf, geometry, content);
  return true;
}

// Makes of a valid leaf that of the next version, which is frozen or not: to be written as a whole.
// `within`: as for GroupView::Parse.
inline void SetFrozen(std::span<std::byte> image, RemotePtr leaf, const LeafGeometry& geometry,
                      KeyView within, bool is_frozen) {
  for (uint32_t number = 0; number < geometry.units(); ++number) {
    SetFrozen(image.subspan(geometry.unit_offset(number), geometry.unit_bytes()), leaf, number,
              within, is_frozen);
  }
  const std::span<std::byte> out = image.subspan(geometry.trailer_offset(), kTrailerBytes);
  Trailer trailer;
  std::memcpy(&trailer, out.data(), sizeof trailer);
  ++trailer.version;
  trailer.level = is_frozen ? TrailerView::kFrozenBit : 0;
  std::memcpy(out.data(), &trailer, sizeof trailer);
  Seal(UnitSeed(leaf, geometry.units()), out);
}

// Writes a store's first, empty leaf and the root word that points to it into server 0's region.
// Requires: no client can see the region yet.
inline void WriteFirstRoot(std::span<std::byte> region, const StoreParameters& parameters) {
  assert(std::ranges::all_of(region.subspan(kRootWordOffset, sizeof(uint64_t)),
                             [](std::byte byte) { return byte == std::byte{0}; }));
  const RemotePtr leaf(ServerId{0}, kFirstLeafOffset, 0);
  const LeafGeometry geometry(parameters.node_bytes);
  LeafContent content;
  content.version = NodeVersion{1};
  EncodeLeaf(region.subspan(kFirstLeafOffset, parameters.node_bytes), leaf, geometry, content);
  const uint64_t word = RootWord(leaf, 0).word();
  std::memcpy(region.data() + kRootWordOffset, &word, sizeof word);
}

}  // namespace gossamer
