// Where a leaf is split, and the bytes of its halves. No verbs.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compute/leaf/leaf_packer.h"
#include "proto/leaf.h"

namespace gossamer {

// A new entry behind all but this fraction of the last node counts as part of an ascending load.
inline constexpr size_t kEdgeFraction = 8;

// The parts of a rewritten leaf.
struct LeafRewrite {
  RemotePtr leaf;
  RemotePtr sibling;  // of the split; unused when the leaf is rewritten in place
  Key low;
  NodeVersion version{0};  // of the result
  HighFence high;
  RemotePtr old_sibling;
};

// The encoded halves of a split.
struct LeafHalves {
  Key separator;
  uint64_t left_hint = 0;
  uint64_t right_hint = 0;
};

// Where to cut a leaf whose keys come in order, as the order of its entries tells: there new keys
// go on to come in. So one half stays as it is, and should be full.
struct OrderedCut {
  size_t left_count = 0;  // entries of the left half; 0 if the keys come in no order
  bool descends = false;
};
// `before`: the entries, unit by unit, of which there are `counts`. `after`: what goes into both
// halves, the new entry last.
// `at_edge`: no key is right of the leaf.
OrderedCut FindOrderedCut(std::span<const Entry> before, std::span<const uint32_t> counts,
                          std::span<const Entry> after, bool at_edge);

// Cuts `entries` near the middle, where the halves take least, or as near there as both fit and the
// fence is short, and encodes them. `left_count` != 0: tries that many on the left, then on to
// there.
// Requires: the order of LeafView::AppendTo, a new entry last; left_count < entries.size(), or one
// entry.
// Returns: nullopt if no split fits: one entry alone, which is too long for the leaf, has none.
std::optional<LeafHalves> EncodeSplit(LeafPacker& packer, const LeafRewrite& rewrite,
                                      std::span<const Entry> entries, size_t left_count,
                                      std::span<std::byte> left, std::span<std::byte> right);
// The same with no entry on the left: for a leaf whose entries have more in common with each other
// than with its low fence, so that no fence between them is short. The right half has a longer
// prefix.
std::optional<LeafHalves> EncodeEmptyLeft(LeafPacker& packer, const LeafRewrite& rewrite,
                                          std::span<const Entry> entries, std::span<std::byte> left,
                                          std::span<std::byte> right);
// The same for a leaf whose keys come in descending order and share much more with each other than
// either fence tells: the fence in front of them is such that many more come behind it.
// Returns: nullopt also if that would not make room.
std::optional<LeafHalves> EncodeRoomBelow(LeafPacker& packer, const LeafRewrite& rewrite,
                                          std::span<const Entry> entries, std::span<std::byte> left,
                                          std::span<std::byte> right);

}  // namespace gossamer
