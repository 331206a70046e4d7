#include "compute/leaf/leaf_cut.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>

#include "compute/leaf/key_ranks.h"

namespace gossamer {

namespace {

// Of the entries that tell an order, three of four have to tell the same.
constexpr bool AreMost(size_t some, size_t all) { return some * 4 >= all * 3; }
// Of the bytes of a leaf's entries: a fence in front of them saves so much, or is not worth a leaf.
constexpr size_t kFenceFraction = 8;
// Of what keys that come in descending order share, the last bytes change next.
constexpr size_t kBytesLeftOpen = 2;
// The latest entry of a unit is near the new one if at most this part of the leaf is between them.
constexpr size_t kNearFraction = 2;

// A split may be 1/kSplitReach of the entries away from the middle. A half with less than a third
// of them would soon be looked at for a merge (LeafEditor::IsSparse).
constexpr size_t kSplitReach = 6;
// What a split at (1/2 + d) of the entries costs: this times d^2, of the bytes of the leaf. By
// FindMiddle's argument it is 2.9. Of 2, 2.9, 4 and 6, 4 gave the least memory for paths, URLs, log
// keys and numbers (scripts/research/memory_by_order).
constexpr double kUnevenCost = 4;

// Encodes `below` and `above`, with `separator` between them, if they fit.
std::optional<LeafHalves> EncodeHalves(LeafPacker& packer, const LeafRewrite& rewrite,
                                       KeyView separator, std::span<const Entry> below,
                                       std::span<const Entry> above, std::span<std::byte> left,
                                       std::span<std::byte> right) {
  if (!IsShortFence(rewrite.low, separator)) return std::nullopt;
  LeafHalves halves;
  halves.separator = Key(separator);
  LeafContent left_content{rewrite.version, rewrite.low, HighFence::At(separator), rewrite.sibling,
                           below};
  LeafContent right_content{rewrite.version, separator, rewrite.high, rewrite.old_sibling, above};
  if (!packer.PlaceAll(left_content, LeafPacker::Own::kAsNeeded)) return std::nullopt;
  halves.left_hint = packer.Encode(left, rewrite.leaf, left_content);
  if (!packer.PlaceAll(right_content, LeafPacker::Own::kAsNeeded)) return std::nullopt;
  halves.right_hint = packer.Encode(right, rewrite.sibling, right_content);
  return halves;
}

// Each half keeps the order in which the units held the entries: every unit of a half then gets a
// subset of what it held, which fits (LAYOUT.md, "a split always leaves room"). `keys`: in their
// order.
std::optional<LeafHalves> TryEncode(LeafPacker& packer, const LeafRewrite& rewrite,
                                    std::span<const Entry> entries, std::span<const uint32_t> ranks,
                                    std::span<const KeyView> keys, size_t middle,
                                    std::span<std::byte> left, std::span<std::byte> right) {
  std::vector<Entry> parted(entries.size());
  std::array<size_t, 2> next{0, middle};
  for (size_t i = 0; i < entries.size(); ++i) {
    // An index: a branch would be mispredicted half the time.
    parted[next[ranks[i] < middle ? 0 : 1]++] = entries[i];
  }
  return EncodeHalves(packer, rewrite, Separator(keys[middle - 1], keys[middle]),
                      std::span(parted).first(middle), std::span(parted).subspan(middle), left,
                      right);
}

// The number of entries on the left with which both halves take the least memory in the long run
// (Bayer and Unterauer, Prefix B-Trees, TODS 1977: a split may choose among the separators near the
// middle). A half stores its keys without what its fences share, and each of its units stores the
// rest of the high fence. Uneven halves cost memory as well: where keys arrive in random order,
// leaves that are split at p are -p ln p - (1 - p) ln (1 - p) full on average, which is 0.69 (1 -
// 2.9 d^2) for p = 1/2 + d.
// `keys`: in their order. Requires: at least 2 entries.
size_t FindMiddle(const LeafPacker& packer, const LeafRewrite& rewrite,
                  std::span<const Entry> entries, std::span<const KeyView> keys) {
  assert(entries.size() >= 2 && keys.size() == entries.size());
  const size_t count = keys.size();
  const KeyView low = rewrite.low;
  const KeyView high = rewrite.high.infinite ? KeyView() : rewrite.high.key.view();
  const auto bytes = static_cast<double>(LeafPacker::BytesOf(entries, CommonBytes(low, high)));
  // Each unit stores the fence.
  const size_t bytes_for_fence_byte = packer.Capacity(0) - packer.Capacity(1);
  // Of a long key, a leaf stores as much whatever the prefix is.
  const bool has_long = std::ranges::any_of(entries, &Entry::is_long);
  const auto saved_by = [&](size_t half_count, KeyView from, KeyView to) {
    const size_t prefix = CommonBytes(from, to);
    return static_cast<double>(has_long ? 0 : half_count * prefix) -
           static_cast<double>(bytes_for_fence_byte * (to.size() - prefix));
  };
  const size_t half = count / 2;
  size_t best = half;
  double most = -std::numeric_limits<double>::infinity();
  // Outwards from the middle: of equals, the one that is nearest.
  for (size_t distance = 0; distance <= count / kSplitReach; ++distance) {
    for (const size_t middle : {half - distance, half + distance}) {
      const KeyView separator = Separator(keys[middle - 1], keys[middle]);
      if (!IsShortFence(low, separator)) continue;
      const double uneven = static_cast<double>(middle) / static_cast<double>(count) - 0.5;
      const double saved = saved_by(middle, low, separator) +
                           saved_by(count - middle, separator, high) -
                           kUnevenCost * uneven * uneven * bytes;
      if (saved > most) {
        most = saved;
        best = middle;
      }
    }
  }
  return best;
}

}  // namespace

// In a unit, entries are in the order in which they came; a rewrite of the leaf keeps that.
OrderedCut FindOrderedCut(std::span<const Entry> before, std::span<const uint32_t> counts,
                          std::span<const Entry> after, bool at_edge) {
  const PrefixedKey fresh(after.back().key);
  const std::span<const Entry> others = after.first(after.size() - 1);
  const auto is_less = [](const Entry& a, const Entry& b) {
    return PrefixedKey(a.key) < PrefixedKey(b.key);
  };
  const auto count_between = [&](const Entry& a, const Entry& b) {
    return static_cast<size_t>(std::ranges::count_if(
        others, [&](const Entry& other) { return is_less(a, other) && is_less(other, b); }));
  };
  const auto below = static_cast<size_t>(std::ranges::count_if(
      others, [&](const Entry& other) { return PrefixedKey(other.key) < fresh; }));
  const size_t above = others.size() - below;
  // At the right edge of the tree, new keys may come a little out of order: many operations are in
  // flight.
  if (at_edge && above <= after.size() / kEdgeFraction) return {below, false};

  size_t ascents = 0;
  size_t pairs = 0;
  size_t at = 0;
  for (const size_t count : counts) {
    for (size_t i = at + 1; i < at + count; ++i, ++pairs) {
      ascents += is_less(before[i - 1], before[i]) ? 1 : 0;
    }
    at += count;
  }
  const bool ascend = AreMost(ascents, pairs);
  const bool descend = AreMost(pairs - ascents, pairs);
  if (!ascend && !descend) return {};
  size_t latest = 0;  // entries of units
  size_t latest_below = 0;
  size_t latest_above = 0;
  const size_t near = others.size() / kNearFraction;
  at = 0;
  for (const size_t count : counts) {
    if (count == 0) continue;
    at += count;
    const Entry& last = before[at - 1];
    ++latest;
    if (is_less(last, after.back())) {
      latest_below += count_between(last, after.back()) <= near ? 1 : 0;
    } else {
      latest_above += count_between(after.back(), last) <= near ? 1 : 0;
    }
  }
  // What is on the far side of the new entry is of others: it goes into a leaf of its own.
  if (ascend && AreMost(latest_below, latest)) {
    return {above == 0 ? below : below + 1, false};
  }
  if (descend && AreMost(latest_above, latest)) {
    return {below == 0 ? 1 : below, true};
  }
  return {};
}

std::optional<LeafHalves> EncodeSplit(LeafPacker& packer, const LeafRewrite& rewrite,
                                      std::span<const Entry> entries, size_t left_count,
                                      std::span<std::byte> left, std::span<std::byte> right) {
  if (entries.size() < 2) return std::nullopt;
  assert(left_count < entries.size());
  RankScratch scratch;
  std::vector<uint32_t> ranks;
  RankByKey(entries, scratch, ranks);
  const size_t count = entries.size();
  std::vector<KeyView> keys(count);
  for (size_t i = 0; i < count; ++i) keys[ranks[i]] = entries[i].key;
  const auto cut_at = [&](size_t middle) {
    return TryEncode(packer, rewrite, entries, ranks, keys, middle, left, right);
  };
  std::optional<LeafHalves> halves;
  if (left_count != 0) halves = cut_at(left_count);
  if (halves) return halves;
  const size_t best = FindMiddle(packer, rewrite, entries, keys);
  if (left_count != 0) {
    for (size_t middle = left_count; middle != best;) {
      middle < best ? ++middle : --middle;
      halves = cut_at(middle);
      if (halves) return halves;
    }
  }
  // Outwards: best, best+1, best-1, ...
  for (size_t distance = 0; distance <= count; ++distance) {
    for (const size_t middle : {best + distance, best - distance}) {
      if (middle == 0 || middle >= count) continue;  // also below 0, which wraps around
      halves = cut_at(middle);
      if (halves) return halves;
    }
  }
  return std::nullopt;
}

std::optional<LeafHalves> EncodeEmptyLeft(LeafPacker& packer, const LeafRewrite& rewrite,
                                          std::span<const Entry> entries, std::span<std::byte> left,
                                          std::span<std::byte> right) {
  const KeyView first = std::ranges::min(entries, {}, &Entry::key).key;
  if (first == rewrite.low.view()) return std::nullopt;
  return EncodeHalves(packer, rewrite, SeparatorBelow(rewrite.low, first), {}, entries, left,
                      right);
}

std::optional<LeafHalves> EncodeRoomBelow(LeafPacker& packer, const LeafRewrite& rewrite,
                                          std::span<const Entry> entries, std::span<std::byte> left,
                                          std::span<std::byte> right) {
  const auto [least, greatest] = std::ranges::minmax(entries, {}, &Entry::key);
  const Bounds bounds = Bounds::Of(rewrite.low, rewrite.high);
  const size_t with_high = rewrite.high.infinite ? 0 : CommonBytes(least.key, rewrite.high.key);
  const size_t usual = std::max({CommonBytes(rewrite.low, greatest.key), bounds.prefix.size(),
                                 with_high <= kMaxFenceBytes ? with_high : 0});
  const size_t common = CommonBytes(least.key, greatest.key);
  const size_t fence = std::min(common - std::min(common, kBytesLeftOpen),
                                CommonBytes(rewrite.low, least.key) + kMaxFenceBytes);
  const size_t bytes = LeafPacker::BytesOf(entries, usual);
  const bool makes_room =
      fence > usual && LeafPacker::BytesOf(entries, fence) <= bytes - bytes / kFenceFraction;
  if (!makes_room) return std::nullopt;
  return EncodeHalves(packer, rewrite, least.key.substr(0, fence), {}, entries, left, right);
}

}  // namespace gossamer
