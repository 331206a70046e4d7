#include "compute/tree/leaf_edit.h"

#include <algorithm>
#include <array>

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
  view.ForEach([&](const Entry& old) {
    if (!AreEqual(old.key, key)) {
      entries[count++] = old;
    } else if (entry && !placed) {
      entries[count++] = *entry;
      placed = true;
    }
  });
  if (entry && !placed) entries[count++] = *entry;
  return EncodeGroup(out, leaf, number, view.version(), overflowed, view.high(),
                     {entries.data(), count});
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
                                    std::span<const Entry> entries, std::span<PrefixedKey> keys,
                                    size_t middle, std::span<std::byte> left,
                                    std::span<std::byte> right) {
  const auto first_right = keys.begin() + static_cast<ptrdiff_t>(middle);
  std::nth_element(keys.begin(), first_right, keys.end());
  const PrefixedKey first_above(*first_right);
  const PrefixedKey last_below(*std::max_element(keys.begin(), first_right));
  LeafHalves halves;
  halves.separator = Key(Separator(last_below.key, first_above.key));
  std::vector<Entry> below;
  std::vector<Entry> above;
  below.reserve(middle);
  above.reserve(entries.size() - middle);
  for (const Entry& entry : entries) {
    (PrefixedKey(entry.key) < first_above ? below : above).push_back(entry);
  }
  const LeafContent left_content{rewrite.version, rewrite.low, HighFence::At(halves.separator),
                                 rewrite.sibling, below};
  const LeafContent right_content{rewrite.version, halves.separator, rewrite.high,
                                  rewrite.old_sibling, above};
  if (!packer.PlaceAll(below, left_content.high)) return std::nullopt;
  halves.left_hint = packer.Encode(left, rewrite.leaf, left_content);
  if (!packer.PlaceAll(above, right_content.high)) return std::nullopt;
  halves.right_hint = packer.Encode(right, rewrite.sibling, right_content);
  return halves;
}

}  // namespace

std::optional<LeafHalves> EncodeSplit(LeafPacker& packer, const LeafRewrite& rewrite,
                                      std::span<const Entry> entries, size_t right_count,
                                      std::span<std::byte> left, std::span<std::byte> right) {
  std::vector<PrefixedKey> keys;
  keys.reserve(entries.size());
  for (const Entry& entry : entries) keys.emplace_back(entry.key);
  const size_t half = keys.size() / 2;
  std::optional<LeafHalves> halves;
  if (right_count != 0) {
    for (size_t middle = keys.size() - right_count; middle > half; --middle) {
      halves = TryEncode(packer, rewrite, entries, keys, middle, left, right);
      if (halves) return halves;
    }
  }
  // Outwards from the middle: n/2, n/2+1, n/2-1, ...
  for (size_t distance = 0; distance <= keys.size(); ++distance) {
    for (const size_t middle : {half + distance, half - distance}) {
      if (middle == 0 || middle >= keys.size()) continue;  // also below 0, which wraps around
      halves = TryEncode(packer, rewrite, entries, keys, middle, left, right);
      if (halves) return halves;
    }
  }
  return std::nullopt;
}

}  // namespace gossamer
