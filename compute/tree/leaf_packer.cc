// Hot path: no allocation, no lock, no virtual call for an entry.
#include "compute/tree/leaf_packer.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "compute/cache/leaf_hint.h"

namespace gossamer {
namespace {

// The length of Separator(left, right).
size_t SeparatorBytes(KeyView left, KeyView right) {
  constexpr size_t kWord = sizeof(uint64_t);
  if (left.size() >= kWord && right.size() >= kWord) {
    const uint64_t differing = internal::LoadWord(left) ^ internal::LoadWord(right);
    if (differing != 0) return static_cast<size_t>(std::countr_zero(differing)) / 8 + 1;
  }
  return Separator(left, right).size();
}

}  // namespace

// fence_bytes(i): of the longest fence that the leaf has if it ends behind entry i.
template <typename FenceBytes>
size_t LeafPacker::PlaceFrom(std::span<const Entry> entries, size_t begin, size_t most_bytes,
                             FenceBytes fence_bytes) {
  if (unit_of_.size() < entries.size() - begin) {
    unit_of_.resize(entries.size() - begin);
    hash_of_.resize(entries.size() - begin);
  }
  const std::optional<size_t> end = PlaceAlike(entries, begin, most_bytes, fence_bytes);
  constexpr size_t kWord = sizeof(uint64_t);
  are_words_ = end && entries[begin].key.size() == kWord && entries[begin].stored.size() == kWord;
  return end ? *end : PlaceMixed(entries, begin, most_bytes, fence_bytes);
}

// The usual case: a unit is as full as it has entries.
template <typename FenceBytes>
std::optional<size_t> LeafPacker::PlaceAlike(std::span<const Entry> entries, size_t begin,
                                             size_t most_bytes, FenceBytes fence_bytes) {
  if (begin == entries.size()) return std::nullopt;
  const uint32_t overflow = geometry_.overflow_unit();
  static_assert(kMaxUnits <= 32 && GroupView::kMaxEntries <= 255);
  std::array<uint8_t, kMaxUnits> counts{};
  uint32_t overflowed = 0;  // bit set of units
  const Entry& first = entries[begin];
  const size_t entry_bytes = std::max<size_t>(1, BytesOf(first));
  size_t fence = 0;
  size_t capacity = 0;  // entries that a unit has room for
  uint32_t fullest = 0;
  const size_t most = std::max<size_t>(1, most_bytes / entry_bytes);
  const size_t limit = begin + std::min(entries.size() - begin, most);
  const auto is_alike = [&first](const Entry& entry) {
    return entry.key.size() == first.key.size() && entry.stored.size() == first.stored.size() &&
           entry.is_block == first.is_block;
  };
  size_t i = begin;
  for (; i < limit; ++i) {
    const Entry& entry = entries[i];
    if (!is_alike(entry)) return std::nullopt;
    const size_t needed = fence_bytes(i);
    if (needed > fence || i == begin) {
      fence = std::max(fence, needed);
      capacity =
          std::min<size_t>((geometry_.unit_bytes() - kGroupHeaderBytes - fence) / entry_bytes,
                           GroupView::kMaxEntries);
      if (fullest > capacity) break;
    }
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
  // A shorter one may fit, where one of the same length is one too many.
  if (i == limit && i != entries.size() && !is_alike(entries[i])) return std::nullopt;
  for (uint32_t number = 0; number < geometry_.units(); ++number) {
    units_[number] = {GroupSizer(first, counts[number]), (overflowed >> number & 1) != 0};
  }
  return i;
}

template <typename FenceBytes>
size_t LeafPacker::PlaceMixed(std::span<const Entry> entries, size_t begin, size_t most_bytes,
                              FenceBytes fence_bytes) {
  const uint32_t overflow = geometry_.overflow_unit();
  std::fill_n(units_.begin(), geometry_.units(), Unit());
  size_t bytes = 0;
  size_t fence = 0;    // the longest that the leaf may need, wherever it ends
  size_t fullest = 0;  // bytes of the fullest unit without its fence
  for (size_t i = begin; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    bytes += BytesOf(entry);
    if (i != begin && bytes > most_bytes) return i;
    fence = std::max<size_t>(fence, fence_bytes(i));
    const size_t limit = geometry_.unit_bytes() - fence;
    if (fullest > limit) return i;
    const auto fits = [limit](const GroupSizer& sizer) {
      return sizer.bytes() <= limit && sizer.count() <= GroupView::kMaxEntries;
    };
    const uint64_t hash = KeyHash(entry.key);
    Unit& home = units_[geometry_.GroupOf(hash)];
    Unit* unit = &home;
    GroupSizer larger = unit->sizer;
    larger.Add(entry);
    if (!fits(larger)) {
      unit = &units_[overflow];
      larger = unit->sizer;
      larger.Add(entry);
      if (!fits(larger)) return i;
      home.overflowed = true;
    }
    unit->sizer = larger;
    fullest = std::max<size_t>(fullest, larger.bytes());
    unit_of_[i - begin] = static_cast<uint8_t>(unit - units_.data());
    hash_of_[i - begin] = static_cast<uint32_t>(hash >> 32);
  }
  return entries.size();
}

size_t LeafPacker::Place(std::span<const Entry> entries, size_t begin, size_t most_bytes,
                         const HighFence& high) {
  const size_t last_fence = high.infinite ? 0 : high.key.size();
  return PlaceFrom(entries, begin, most_bytes, [&](size_t i) {
    return i + 1 == entries.size() ? last_fence
                                   : SeparatorBytes(entries[i].key, entries[i + 1].key);
  });
}

bool LeafPacker::PlaceAll(std::span<const Entry> entries, const HighFence& high) {
  const size_t fence = high.infinite ? 0 : high.key.size();
  return PlaceFrom(entries, 0, kNoLimit, [fence](size_t) { return fence; }) == entries.size();
}

uint64_t LeafPacker::Encode(std::span<std::byte> out, RemotePtr leaf,
                            const LeafContent& content) const {
  const uint32_t overflow = geometry_.overflow_unit();
  const uint32_t unit_count = geometry_.units();
  std::array<std::optional<GroupEncoder>, kMaxUnits> encoders;
  for (uint32_t number = 0; number < unit_count; ++number) {
    encoders[number].emplace(out.subspan(geometry_.unit_offset(number), geometry_.unit_bytes()),
                             content.high, units_[number].sizer);
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
  const size_t fence = content.high.infinite ? 0 : content.high.key.size();
  for (uint32_t number = 0; number < unit_count; ++number) {
    const Unit& unit = units_[number];
    encoders[number]->Seal(leaf, number, content.version, unit.overflowed);
    // As GroupView::HasRoomForAnother.
    const size_t count = unit.sizer.count();
    const size_t used = unit.sizer.bytes();
    const bool has_room =
        count == 0 ||
        (count < GroupView::kMaxEntries &&
         used + fence + (used - kGroupHeaderBytes + count - 1) / count <= geometry_.unit_bytes());
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
