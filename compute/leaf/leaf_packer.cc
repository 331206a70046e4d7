// Hot path: no allocation, no lock, no virtual call for an entry.
#include "compute/leaf/leaf_packer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <limits>
#include <optional>

#include "compute/leaf/key_ranks.h"
#include "compute/leaf/leaf_hint.h"

namespace gossamer {
namespace {

// Of the room of a leaf: a prefix of its own leaves so much free, or is not worth a rewrite.
constexpr size_t kRoomFraction = 8;

// The length of Separator(left, right).
size_t SeparatorBytes(KeyView left, KeyView right) {
  constexpr size_t kWord = sizeof(uint64_t);
  if (left.size() >= kWord && right.size() >= kWord) {
    const uint64_t differing = internal::LoadWord(left) ^ internal::LoadWord(right);
    if (differing != 0) return static_cast<size_t>(std::countr_zero(differing)) / 8 + 1;
  }
  return Separator(left, right).size();
}

// Where a leaf starts, to be compared with many keys.
class LowFence {
 public:
  explicit LowFence(KeyView low) : low_(low), word_(FirstBytes(low)) {}

  size_t CommonWith(KeyView key) const {
    const uint64_t differing = word_ ^ FirstBytes(key);
    if (differing == 0) return CommonBytes(low_, key);
    return std::min(
        {static_cast<size_t>(std::countr_zero(differing)) / 8, low_.size(), key.size()});
  }

 private:
  KeyView low_;
  uint64_t word_;
};

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

template <typename FencesAt>
size_t LeafPacker::PlaceFrom(std::span<const Entry> entries, size_t begin, const Most& most,
                             size_t prefix_bytes, FencesAt fences_at) {
  if (unit_of_.size() < entries.size() - begin) {
    unit_of_.resize(entries.size() - begin);
    hash_of_.resize(entries.size() - begin);
  }
  const std::optional<size_t> end = PlaceAlike(entries, begin, most, fences_at);
  constexpr size_t kWord = sizeof(uint64_t);
  are_words_ = end && entries[begin].key.size() == kWord && entries[begin].stored.size() == kWord &&
               !entries[begin].expires();
  return end ? *end : PlaceMixed(entries, begin, most, prefix_bytes, fences_at);
}

// The usual case: a unit is as full as it has entries.
template <typename FencesAt>
std::optional<size_t> LeafPacker::PlaceAlike(std::span<const Entry> entries, size_t begin,
                                             const Most& most, FencesAt fences_at) {
  if (begin == entries.size() || entries[begin].is_long()) return std::nullopt;
  const uint32_t overflow = geometry_.overflow_unit();
  static_assert(kMaxUnits <= 32 && GroupView::kMaxEntries <= 255);
  std::array<uint8_t, kMaxUnits> counts{};
  uint32_t overflowed = 0;  // bit set of units
  const Entry& first = entries[begin];
  const auto bytes_behind = [&first](size_t prefix) {
    return std::max<size_t>(1, BytesOf(first, prefix));
  };
  // The least prefix and the longest fence that the leaf may have, wherever it ends.
  FenceBytes fences{~size_t{0}, 0, ~size_t{0}};
  size_t capacity = 0;  // entries that a unit has room for
  size_t limit = 0;     // entries that the leaf may have
  uint32_t fullest = 0;
  const size_t counted = geometry_.CountedBytes(first.key.size(), first.expires());
  size_t i = begin;
  for (; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (entry.key.size() != first.key.size() || !HaveOneForm(entry, first)) return std::nullopt;
    if (fences.Worsen(fences_at(i))) {
      const size_t entry_bytes = bytes_behind(fences.prefix);
      capacity =
          std::min<size_t>((geometry_.unit_bytes() - kGroupHeaderBytes - fences.high) / entry_bytes,
                           GroupView::kMaxEntries);
      limit = most.bytes / bytes_behind(most.prefix_bytes.value_or(fences.prefix));
      if (fullest > capacity || counted > fences.longest) break;
    }
    if (i != begin && i - begin >= limit) break;
    const uint64_t hash = KeyHash(entry.key);
    uint32_t number = geometry_.GroupOf(hash);
    if (counts[number] >= capacity) {
      if (counts[overflow] >= capacity) break;
      overflowed |= 1u << number;
      number = overflow;
    }
    fullest = std::max<uint32_t>(fullest, ++counts[number]);
    unit_of_[i - begin] = static_cast<uint8_t>(number);
    hash_of_[i - begin] = static_cast<uint32_t>(hash >> 32);
  }
  for (uint32_t number = 0; number < geometry_.units(); ++number) {
    units_[number] = {GroupSizer(first, counts[number]), (overflowed >> number & 1) != 0};
  }
  return i;
}

template <typename FencesAt>
size_t LeafPacker::PlaceMixed(std::span<const Entry> entries, size_t begin, const Most& most,
                              size_t prefix_bytes, FencesAt fences_at) {
  const uint32_t overflow = geometry_.overflow_unit();
  std::fill_n(units_.begin(), geometry_.units(), Unit());
  FenceBytes fences{~size_t{0}, 0, ~size_t{0}};  // as above
  size_t bytes = 0;                              // of whole keys and what is stored for them
  size_t long_count = 0;
  size_t longest = 0;  // of keys that are not long ones
  const auto bytes_of = [&fences](const GroupSizer& sizer) {
    return sizer.WithoutPrefix(static_cast<uint32_t>(fences.prefix)).bytes() + fences.high;
  };
  const auto fits = [&](const GroupSizer& sizer) {
    return bytes_of(sizer) <= geometry_.unit_bytes() && sizer.count() <= GroupView::kMaxEntries;
  };
  const std::span<const Unit> units = std::span(units_).first(geometry_.units());
  for (size_t i = begin; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (fences.Worsen(fences_at(i))) {
      const bool still_fit =
          std::ranges::all_of(units, [&](const Unit& unit) { return fits(unit.sizer); });
      if (!still_fit) return i;
    }
    bytes += BytesOf(entry, 0);
    if (entry.is_long()) {
      ++long_count;
    } else {
      longest = std::max(longest, geometry_.CountedBytes(entry.key.size(), entry.expires()));
    }
    if (longest > fences.longest) return i;
    const size_t unstored =
        (i + 1 - begin - long_count) * most.prefix_bytes.value_or(fences.prefix);
    if (i != begin && bytes - unstored > most.bytes) return i;
    const uint64_t hash = entry.key_hash();
    Unit& home = units_[geometry_.GroupOf(hash)];
    Unit* unit = &home;
    GroupSizer larger = unit->sizer;
    larger.Add(entry, prefix_bytes);
    if (!fits(larger)) {
      unit = &units_[overflow];
      larger = unit->sizer;
      larger.Add(entry, prefix_bytes);
      if (!fits(larger)) return i;
      home.overflowed = true;
    }
    unit->sizer = larger;
    unit_of_[i - begin] = static_cast<uint8_t>(unit - units_.data());
    hash_of_[i - begin] = static_cast<uint32_t>(hash >> 32);
  }
  return entries.size();
}

LeafPacker::Placed LeafPacker::Place(const Supply& supply, const Most& most) {
  const std::span<const Entry> entries = supply.entries;
  const LowFence low(supply.low);
  const size_t suffix = geometry_.max_suffix_bytes();
  const auto fences_at = [&](size_t i) -> FenceBytes {
    if (i + 1 == entries.size()) {
      if (supply.high.infinite) return {0, 0, suffix};
      const size_t prefix = low.CommonWith(supply.high.key);
      return {prefix, supply.high.key.size() - prefix, prefix + suffix};
    }
    const KeyView next = entries[i + 1].key;
    assert(entries[i].key < next);
    const size_t separator = SeparatorBytes(entries[i].key, next);
    const size_t prefix = std::min(low.CommonWith(next), separator);
    // The leaf does not end where its fence would be longer.
    return {prefix, std::min<size_t>(separator - prefix, kMaxFenceBytes), prefix + suffix};
  };
  const auto own_fences_at = [&](size_t i) -> FenceBytes {
    const size_t prefix = low.CommonWith(entries[i].key);
    return {prefix, fences_at(i).high + 1, prefix + suffix - 1};
  };
  const auto place = [&](auto at) {
    // The prefix is known once the end is. Until then, each long key counts with all bytes that a
    // unit stores of it at most.
    const size_t end = PlaceFrom(entries, supply.begin, most, 0, at);
    if (end == entries.size()) return end;
    size_t cut = end;
    while (cut != supply.begin && !IsShortFence(supply.low, FenceAt(supply, cut))) --cut;
    return cut == end ? end : PlaceFrom(entries.first(cut), supply.begin, most, 0, at);
  };
  Placed placed{place(fences_at)};
  const size_t count = placed.end - supply.begin;
  const size_t rest = entries.size() - supply.begin;
  // As many as another leaf would hold: the last leaf may take all, if it is not held to what its
  // range shares.
  const bool may_be_last = rest != count && rest <= count + count / 4;
  if (may_be_last) {
    LeafContent last{NodeVersion{0}, supply.low, supply.high, RemotePtr(),
                     entries.subspan(supply.begin)};
    const bool fits =
        PlaceAll(last, Own::kAsNeeded) &&
        BytesOf(last.entries, most.prefix_bytes.value_or(last.own.bytes)) <= most.bytes;
    if (fits) return {entries.size(), last.own};
    place(fences_at);
  }
  if (count != 0 || rest == 0) return placed;
  const Entry& first = entries[supply.begin];
  const size_t counted = geometry_.CountedBytes(first.key.size(), first.expires());
  const bool is_too_long = !first.is_long() && counted > fences_at(supply.begin).longest;
  if (!is_too_long) return placed;
  placed.end = place(own_fences_at);
  if (placed.end != supply.begin) {
    // The last key shares least with the fence.
    placed.own = {PrefixOf::kLowFence, low.CommonWith(entries[placed.end - 1].key)};
  }
  return placed;
}

KeyView LeafPacker::FenceAt(const Supply& supply, size_t end) {
  const KeyView next = supply.entries[end].key;
  return end == supply.begin ? SeparatorBelow(supply.low, next)
                             : Separator(supply.entries[end - 1].key, next);
}

bool LeafPacker::Fits(const LeafContent& content) {
  const Bounds bounds = content.bounds();
  const FenceBytes fences{bounds.prefix.size(), bounds.stored_bytes(),
                          bounds.LongestKey(geometry_.max_suffix_bytes())};
  return PlaceFrom(content.entries, 0, Most(), fences.prefix,
                   [fences](size_t) { return fences; }) == content.entries.size();
}

bool LeafPacker::PlaceAll(LeafContent& content, Own own) {
  content.own = {};
  if (Fits(content)) return true;
  if (own == Own::kNever || content.entries.empty()) return false;
  const auto [least, greatest] = std::ranges::minmax_element(content.entries, {}, &Entry::key);
  const size_t shared = content.bounds().prefix.size();
  const auto try_own = [&](PrefixOf of, size_t bytes) {
    if (bytes <= shared) return false;
    content.own = {of, bytes};
    const size_t room = Capacity(content.bounds().stored_bytes());
    const bool is_worth_it =
        own == Own::kAsNeeded || BytesOf(content.entries, bytes) <= room - room / kRoomFraction;
    return is_worth_it && Fits(content);
  };
  if (try_own(PrefixOf::kLowFence, CommonBytes(content.low, greatest->key))) return true;
  if (!content.high.infinite &&
      try_own(PrefixOf::kHighFence, CommonBytes(least->key, content.high.key))) {
    return true;
  }
  content.own = {};
  return false;
}

uint64_t LeafPacker::Encode(std::span<std::byte> out, RemotePtr leaf,
                            const LeafContent& content) const {
  const uint32_t overflow = geometry_.overflow_unit();
  const uint32_t unit_count = geometry_.units();
  const Bounds bounds = content.bounds();
  const auto prefix_bytes = static_cast<uint32_t>(bounds.prefix.size());
  std::array<std::optional<GroupEncoder>, kMaxUnits> encoders;
  for (uint32_t number = 0; number < unit_count; ++number) {
    encoders[number].emplace(out.subspan(geometry_.unit_offset(number), geometry_.unit_bytes()),
                             bounds, prefix_bytes,
                             units_[number].sizer.WithoutPrefix(prefix_bytes));
  }
  HintPatch hint;
  const auto add_all = [&](auto add) {
    for (size_t i = 0; i < content.entries.size(); ++i) {
      const uint32_t number = unit_of_[i];
      add(*encoders[number], content.entries[i]);
      if (number == overflow) hint.bits |= LeafHint::FilterBit(uint64_t{hash_of_[i]} << 32);
    }
  };
  if (are_words_) {
    add_all([](GroupEncoder& unit, const Entry& entry) { unit.AddWords(entry); });
  } else {
    add_all([](GroupEncoder& unit, const Entry& entry) { unit.Add(entry); });
  }
  const size_t fixed = kGroupHeaderBytes + bounds.stored_bytes();
  for (uint32_t number = 0; number < unit_count; ++number) {
    const Unit& unit = units_[number];
    // As GroupView::HasRoomForAnother.
    const size_t count = unit.sizer.count();
    const size_t used = encoders[number]->bytes();
    const bool has_room =
        count == 0 || (count < GroupView::kMaxEntries &&
                       used + (used - fixed + count - 1) / count <= geometry_.unit_bytes());
    encoders[number]->Seal(leaf, number, content.version, unit.overflowed);
    if (number == overflow) {
      if (!has_room) hint.bits |= LeafHint::kOverflowBit;
    } else if (unit.overflowed || !has_room) {
      hint.bits |= LeafHint::GroupBit(number);
    }
  }
  const uint32_t units_end = geometry_.unit_offset(unit_count);
  std::memset(out.data() + units_end, 0, geometry_.trailer_offset() - units_end);
  EncodeTrailer(out.subspan(geometry_.trailer_offset(), kTrailerBytes), leaf, geometry_, content);
  return hint.bits;
}

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
