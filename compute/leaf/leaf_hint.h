// LeafHint: one word beside the cached pointer to a leaf, with what this compute server knows of
// it.
//
//   bits 0..6   for each home group (its number mod 7), whether it is *tight*: flagged as
//               overflowed, or without room for one more entry like those it has
//   bit  7      whether the overflow group has no such room
//   bits 8..63  a filter (one hash) of the keys in the overflow group
//
// A hint only chooses what an operation reads with its first batch. Operations on an existing key
// use the filter. The filter cannot prove that a key is absent, so an insert uses the home group's
// bit. Other clients write too, so a hint may be wrong: that costs bytes or a round trip, never a
// wrong answer. An operation that reads a unit corrects the hint.
#pragma once

#include <bit>
#include <cstdint>

#include "common/set_bits.h"
#include "proto/key.h"
#include "proto/leaf.h"

namespace gossamer {

class LeafHint {
 public:
  static constexpr uint32_t kGroupBits = 7;
  static constexpr uint64_t kOverflowBit = uint64_t{1} << kGroupBits;
  static constexpr uint32_t kFilterAt = kGroupBits + 1;
  static constexpr uint64_t kFilter = ~uint64_t{0} << kFilterAt;
  // Of a leaf of which nothing is known: any key may be in its overflow group, which is not known
  // to be full.
  static constexpr uint64_t kUnknown = ~kOverflowBit;

  static constexpr uint64_t GroupBit(uint32_t group) { return uint64_t{1} << group % kGroupBits; }
  // Uses the half of the hash that does not choose the home group.
  static constexpr uint64_t FilterBit(uint64_t key_hash) {
    return uint64_t{1} << (kFilterAt + ((key_hash >> 32) * (64 - kFilterAt) >> 32));
  }

  explicit constexpr LeafHint(uint64_t word) : word_(word) {}

  // Whether a key of this home group may be in the overflow group if it is not in its home group. A
  // key is there only if its home group is flagged.
  bool MayHaveOverflowed(uint64_t key_hash, uint32_t group) const {
    return (word_ & FilterBit(key_hash)) != 0 && IsTight(group);
  }
  // Whether inserting a key of this home group involves the overflow group.
  bool IsTight(uint32_t group) const { return (word_ & GroupBit(group)) != 0; }
  // Whether the leaf has no room for a new key of this home group.
  bool IsFull(uint32_t group) const { return IsTight(group) && (word_ & kOverflowBit) != 0; }

 private:
  uint64_t word_;
};

// Known values for some of a hint's bits.
struct HintPatch {
  uint64_t mask = 0;  // which bits are known
  uint64_t bits = 0;

  uint64_t AppliedTo(uint64_t word) const { return (word & ~mask) | bits; }
};

// The bits known from the units in `known` (a bit set of unit numbers). unit_at(number) is a
// GroupView.
template <typename UnitAt>
HintPatch PatchOf(const LeafGeometry& geometry, uint32_t known, UnitAt&& unit_at) {
  const uint32_t overflow = geometry.overflow_unit();
  // If several groups share a bit, one group alone cannot clear it.
  const bool may_clear = geometry.groups() <= LeafHint::kGroupBits ||
                         std::popcount(known) == static_cast<int>(geometry.units());
  HintPatch patch;
  for (const uint32_t number : SetBits(known)) {
    const GroupView& unit = unit_at(number);
    const bool has_room = unit.HasRoomForAnother(geometry.unit_bytes());
    if (number != overflow) {
      if (may_clear) patch.mask |= LeafHint::GroupBit(number);
      if (unit.overflowed() || !has_room) patch.bits |= LeafHint::GroupBit(number);
      continue;
    }
    patch.mask |= LeafHint::kFilter | LeafHint::kOverflowBit;
    if (!has_room) patch.bits |= LeafHint::kOverflowBit;
    unit.ForEach([&](const Entry& entry) {
      // Of a long key, the unit has the first bytes only.
      const uint64_t hash = entry.is_long() ? entry.key_hash() : KeyHash(unit.prefix(), entry.key);
      patch.bits |= LeafHint::FilterBit(hash) | LeafHint::GroupBit(geometry.GroupOf(hash));
    });
  }
  patch.mask |= patch.bits;
  return patch;
}

// The whole hint.
inline uint64_t HintOf(const LeafView& leaf, const LeafGeometry& geometry) {
  const uint32_t all = (uint32_t{1} << geometry.units()) - 1;
  return PatchOf(geometry, all,
                 [&leaf](uint32_t number) -> const GroupView& { return leaf.unit(number); })
      .bits;
}

}  // namespace gossamer
