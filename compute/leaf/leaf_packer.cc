// Hot path: no allocation, no lock, no virtual call for an entry.
#include "compute/leaf/leaf_packer.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <optional>

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
  are_words_ = end && entries[begin].key.size() == kWord && entries[begin].stored.size() == kWord;
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
  size_t i = begin;
  for (; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    const bool is_alike = entry.key.size() == first.key.size() &&
                          entry.stored.size() == first.stored.size() && entry.kind == first.kind;
    if (!is_alike) return std::nullopt;
    if (fences.Worsen(fences_at(i))) {
      const size_t entry_bytes = bytes_behind(fences.prefix);
      capacity =
          std::min<size_t>((geometry_.unit_bytes() - kGroupHeaderBytes - fences.high) / entry_bytes,
                           GroupView::kMaxEntries);
      limit = most.bytes / bytes_behind(most.prefix_bytes.value_or(fences.prefix));
      if (fullest > capacity || first.key.size() > fences.longest) break;
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
      longest = std::max(longest, entry.key.size());
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
  const bool is_too_long = !first.is_long() && first.key.size() > fences_at(supply.begin).longest;
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

}  // namespace gossamer
