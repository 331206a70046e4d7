// The positions of the units in a leaf.
//
//   +---------+---------+-----+---------+----------+---------+
//   | group 0 | group 1 | ... | group g-1 | overflow | trailer |
//   +---------+---------+-----+---------+----------+---------+
//
// Units (groups and overflow group) are all of one size, near 164 B: what 10 entries of 14 B with a
// 6-byte fence need. 1024 B hold 5 groups, one overflow group and a 40-byte trailer.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/store_parameters.h"

namespace gossamer {

inline constexpr uint32_t kGroupHeaderBytes = 18;
inline constexpr uint32_t kTrailerBytes = 40;
inline constexpr uint32_t kIdealUnitBytes = 164;
inline constexpr uint32_t kUnitSlotBytes = 192;  // has room for any unit, in whole cache lines
inline constexpr uint32_t kMaxUnits = 24;        // of a leaf of kMaxNodeBytes
inline constexpr uint32_t kBlockRefBytes = 16;
inline constexpr uint32_t kLongEntryBytes = 40;  // of a long key: its first bytes and a LongRef
// Of the time that an entry which expires has behind what it stores.
inline constexpr uint32_t kExpiryBytes = 6;

// The most that a high fence has behind the bytes that it shares with the low fence of its node.
// Splits see to that: every unit of a leaf stores it.
inline constexpr uint32_t kMaxFenceBytes = 32;

class LeafGeometry {
 public:
  // Of nodes in a store with these parameters.
  constexpr explicit LeafGeometry(const StoreParameters& parameters)
      : LeafGeometry(parameters.node_bytes) {
    const uint32_t stored = std::max<uint32_t>(parameters.inline_value_bytes, kBlockRefBytes);
    const uint32_t fence = std::min<uint32_t>(parameters.max_key_bytes, kMaxFenceBytes);
    const uint32_t others = kGroupHeaderBytes + fence + 2 + stored;
    const uint32_t room = unit_bytes_ > others ? unit_bytes_ - others : 0;
    max_suffix_bytes_ = std::min<uint32_t>(room, parameters.max_key_bytes);
    const uint32_t expiring_room = room > kExpiryBytes ? room - kExpiryBytes : 0;
    max_expiring_suffix_bytes_ = std::min<uint32_t>(expiring_room, parameters.max_key_bytes);
  }
  // If all keys are short.
  constexpr explicit LeafGeometry(uint32_t node_bytes)
      : node_bytes_(node_bytes), units_((node_bytes - kTrailerBytes) / kIdealUnitBytes) {
    // Small nodes waste less with one more unit, each slightly smaller than the ideal.
    if ((node_bytes - kTrailerBytes) / units_ > kIdealUnitBytes * 5 / 4) ++units_;
    unit_bytes_ = (node_bytes - kTrailerBytes) / units_ / 4 * 4;
  }

  constexpr uint32_t node_bytes() const { return node_bytes_; }
  constexpr uint32_t unit_bytes() const { return unit_bytes_; }
  constexpr uint32_t units() const { return units_; }  // groups and the overflow group
  // The most that a unit stores of a key behind the prefix: what fits beside the longest fence and
  // the longest inline value. A key of which more is behind the prefix is a *long key*, and goes to
  // a block.
  constexpr uint32_t max_suffix_bytes() const { return max_suffix_bytes_; }
  // The same of a key that may expire.
  constexpr uint32_t max_suffix_bytes(bool expires) const {
    return expires ? max_expiring_suffix_bytes_ : max_suffix_bytes_;
  }
  // What a key that expires counts as, against max_suffix_bytes().
  constexpr size_t CountedBytes(size_t key_bytes, bool expires) const {
    return key_bytes + max_suffix_bytes_ - max_suffix_bytes(expires);
  }
  constexpr uint32_t groups() const { return units_ - 1; }
  constexpr uint32_t overflow_unit() const { return units_ - 1; }
  constexpr uint32_t unit_offset(uint32_t unit) const { return unit * unit_bytes_; }
  constexpr uint32_t trailer_offset() const { return node_bytes_ - kTrailerBytes; }
  // The home group of a key.
  constexpr uint32_t GroupOf(uint64_t key_hash) const {
    return static_cast<uint32_t>(((key_hash & 0xffffffff) * groups()) >> 32);
  }

 private:
  uint32_t node_bytes_;
  uint32_t units_;
  uint32_t unit_bytes_ = 0;
  uint32_t max_suffix_bytes_ = kMaxKeyBytes;
  uint32_t max_expiring_suffix_bytes_ = kMaxKeyBytes;
};

static_assert(LeafGeometry(1024).units() == 6 && LeafGeometry(1024).unit_bytes() == 164);
static_assert(LeafGeometry(1024).overflow_unit() * 164 + 164 ==
              LeafGeometry(1024).trailer_offset());
static_assert(LeafGeometry(kMinNodeBytes).units() == 2 && LeafGeometry(512).units() == 3);
static_assert(LeafGeometry(kMaxNodeBytes).units() <= kMaxUnits);

// Accepts parameters with which every unit can hold one entry of the greatest size beside the
// longest fence: of a key of the greatest length, or of a long key. Then a leaf, with its overflow
// group, holds any two keys, and a split always leaves room. An internal node of 256 B has no room
// for two children with long separators (LAYOUT.md).
constexpr bool IsStorable(const StoreParameters& p) {
  if (p.node_bytes < kMinNodeBytes || p.node_bytes > kMaxNodeBytes ||
      (p.node_bytes & (p.node_bytes - 1)) != 0 || p.max_key_bytes == 0 ||
      p.max_key_bytes > kMaxKeyBytes || p.inline_value_bytes > kMaxInlineValueBytes) {
    return false;
  }
  const uint32_t suffix = LeafGeometry(p).max_suffix_bytes();
  if (suffix == p.max_key_bytes)
    return p.node_bytes > kMinNodeBytes || p.max_key_bytes <= kMaxFenceBytes;
  // An entry of a long key takes no more than one of the longest short key with a BlockRef.
  return p.node_bytes > kMinNodeBytes && suffix + kBlockRefBytes >= kLongEntryBytes;
}
static_assert(IsStorable({1024, 32, 64}) && IsStorable({256, 32, 16}) && IsStorable({1024, 8, 8}));
static_assert(IsStorable({512, 250, 64}) && IsStorable({4096, 250, 64}) &&
              IsStorable({1024, 250, 16}));
static_assert(LeafGeometry(StoreParameters{1024, 250, 16}).max_suffix_bytes() == 96);

static_assert(LeafGeometry(256).unit_bytes() <= kUnitSlotBytes &&
              LeafGeometry(512).unit_bytes() <= kUnitSlotBytes &&
              LeafGeometry(1024).unit_bytes() <= kUnitSlotBytes &&
              LeafGeometry(2048).unit_bytes() <= kUnitSlotBytes &&
              LeafGeometry(4096).unit_bytes() <= kUnitSlotBytes);

}  // namespace gossamer
