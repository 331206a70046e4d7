#include "compute/tree/leaf_edit.h"

#include <algorithm>
#include <array>

#include "compute/tree/key_ranks.h"

namespace gossamer {

namespace {

// Most units hold few entries, and an array for the maximum takes time to construct.
constexpr uint32_t kFew = 16;

template <size_t kCapacity>
bool RewriteWithin(std::span<std::byte> out, RemotePtr leaf, uint32_t number, const GroupView& view,
                   bool overflowed, const std::optional<Entry>& old,
                   const std::optional<Entry>& entry) {
  std::array<Entry, kCapacity> entries;
  size_t count = 0;
  const auto place = [&] {
    entries[count++] = {entry->StoredKey(view.prefix().size()), entry->stored, entry->kind};
  };
  view.ForEach([&](const Entry& one) {
    const bool is_old = old && one.stored.data() == old->stored.data();
    if (!is_old) {
      entries[count++] = one;
    } else if (entry) {
      place();
    }
  });
  if (entry && !old) place();
  return EncodeGroup(out, leaf, number, view.version(), overflowed, view.bounds(),
                     {entries.data(), count}, Keys::kWithoutPrefix);
}

}  // namespace

bool RewriteUnit(std::span<std::byte> out, RemotePtr leaf, uint32_t number, const GroupView& view,
                 bool overflowed, const std::optional<Entry>& old,
                 const std::optional<Entry>& entry) {
  return view.count() < kFew ? RewriteWithin<kFew>(out, leaf, number, view, overflowed, old, entry)
                             : RewriteWithin<GroupView::kMaxEntries + 1>(out, leaf, number, view,
                                                                         overflowed, old, entry);
}

namespace {

// Encodes `below` and `above`, with `separator` between them, if they fit.
std::optional<LeafHalves> EncodeHalves(LeafPacker& packer, const LeafRewrite& rewrite,
                                       KeyView separator, std::span<const Entry> below,
                                       std::span<const Entry> above, std::span<std::byte> left,
                                       std::span<std::byte> right) {
  if (!IsShortFence(rewrite.low, separator)) return std::nullopt;
  LeafHalves halves;
  halves.separator = Key(separator);
  const LeafContent left_content{rewrite.version, rewrite.low, HighFence::At(separator),
                                 rewrite.sibling, below};
  const LeafContent right_content{rewrite.version, separator, rewrite.high, rewrite.old_sibling,
                                  above};
  if (!packer.PlaceAll(left_content)) return std::nullopt;
  halves.left_hint = packer.Encode(left, rewrite.leaf, left_content);
  if (!packer.PlaceAll(right_content)) return std::nullopt;
  halves.right_hint = packer.Encode(right, rewrite.sibling, right_content);
  return halves;
}

// Each half keeps the order in which the units held the entries: every unit of a half then gets a subset of what
// it held, which fits (LAYOUT.md, "a split always leaves room").
std::optional<LeafHalves> TryEncode(LeafPacker& packer, const LeafRewrite& rewrite,
                                    std::span<const Entry> entries, std::span<const uint32_t> ranks,
                                    size_t middle, std::span<std::byte> left,
                                    std::span<std::byte> right) {
  KeyView last_below;
  KeyView first_above;
  std::vector<Entry> parted(entries.size());
  std::array<size_t, 2> next{0, middle};
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    // An index: a branch would be mispredicted half the time.
    const size_t side = ranks[i] < middle ? 0 : 1;
    parted[next[side]++] = entry;
    if (ranks[i] + 1 == middle) last_below = entry.key;
    if (ranks[i] == middle) first_above = entry.key;
  }
  return EncodeHalves(packer, rewrite, Separator(last_below, first_above),
                      std::span(parted).first(middle), std::span(parted).subspan(middle), left,
                      right);
}

}  // namespace

std::optional<LeafHalves> EncodeSplit(LeafPacker& packer, const LeafRewrite& rewrite,
                                      std::span<const Entry> entries, size_t right_count,
                                      std::span<std::byte> left, std::span<std::byte> right) {
  RankScratch scratch;
  std::vector<uint32_t> ranks;
  RankByKey(entries, scratch, ranks);
  const size_t count = entries.size();
  const size_t half = count / 2;
  std::optional<LeafHalves> halves;
  if (right_count != 0) {
    for (size_t middle = count - right_count; middle > half; --middle) {
      halves = TryEncode(packer, rewrite, entries, ranks, middle, left, right);
      if (halves) return halves;
    }
  }
  // Outwards from the middle: n/2, n/2+1, n/2-1, ...
  for (size_t distance = 0; distance <= count; ++distance) {
    for (const size_t middle : {half + distance, half - distance}) {
      if (middle == 0 || middle >= count) continue;  // also below 0, which wraps around
      halves = TryEncode(packer, rewrite, entries, ranks, middle, left, right);
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

}  // namespace gossamer
