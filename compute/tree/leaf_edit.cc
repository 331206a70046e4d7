#include "compute/tree/leaf_edit.h"

#include <array>

#include "compute/tree/key_ranks.h"

namespace gossamer {

namespace {

// Most units hold few entries, and an array for the maximum takes time to construct.
constexpr uint32_t kFew = 16;

template <size_t kCapacity>
bool RewriteWithin(std::span<std::byte> out, RemotePtr leaf, uint32_t number, const GroupView& view,
                   bool overflowed, KeyView key, const std::optional<Entry>& entry) {
  std::array<Entry, kCapacity> entries;
  size_t count = 0;
  bool placed = false;
  const KeyView suffix = key.substr(view.prefix().size());
  const auto place = [&] {
    entries[count++] = {suffix, entry->stored, entry->is_block};
    placed = true;
  };
  view.ForEach([&](const Entry& old) {
    if (!AreEqual(old.key, suffix)) {
      entries[count++] = old;
    } else if (entry && !placed) {
      place();
    }
  });
  if (entry && !placed) place();
  return EncodeGroup(out, leaf, number, view.version(), overflowed, view.bounds(),
                     {entries.data(), count}, Keys::kWithoutPrefix);
}

}  // namespace

bool RewriteUnit(std::span<std::byte> out, RemotePtr leaf, uint32_t number, const GroupView& view,
                 bool overflowed, KeyView key, const std::optional<Entry>& entry) {
  return view.count() < kFew ? RewriteWithin<kFew>(out, leaf, number, view, overflowed, key, entry)
                             : RewriteWithin<GroupView::kMaxEntries + 1>(out, leaf, number, view,
                                                                         overflowed, key, entry);
}

namespace {

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
  const std::span<const Entry> below = std::span(parted).first(middle);
  const std::span<const Entry> above = std::span(parted).subspan(middle);
  LeafHalves halves;
  halves.separator = Key(Separator(last_below, first_above));
  const LeafContent left_content{rewrite.version, rewrite.low, HighFence::At(halves.separator),
                                 rewrite.sibling, below};
  const LeafContent right_content{rewrite.version, halves.separator, rewrite.high,
                                  rewrite.old_sibling, above};
  if (!packer.PlaceAll(left_content)) return std::nullopt;
  halves.left_hint = packer.Encode(left, rewrite.leaf, left_content);
  if (!packer.PlaceAll(right_content)) return std::nullopt;
  halves.right_hint = packer.Encode(right, rewrite.sibling, right_content);
  return halves;
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

}  // namespace gossamer
