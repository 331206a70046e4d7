#include "compute/tree/leaf_edit.h"

#include <algorithm>
#include <array>

namespace gossamer {

bool RewriteUnit(std::span<std::byte> out, RemotePtr leaf, uint32_t number, const GroupView& view,
                 bool overflowed, KeyView key, const std::optional<Entry>& entry) {
  std::array<Entry, GroupView::kMaxEntries + 1> entries;
  size_t count = 0;
  bool placed = false;
  view.ForEach([&](const Entry& old) {
    if (old.key != key) {
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

void SortByKey(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.key < b.key; });
}

namespace {

bool TryEncode(const LeafRewrite& rewrite, const LeafGeometry& geometry,
               std::span<const Entry> entries, size_t middle, std::span<std::byte> left,
               std::span<std::byte> right, LeafSplit& split) {
  split.separator = Key(Separator(entries[middle - 1].key, entries[middle].key));
  const LeafContent left_content{rewrite.version, rewrite.low, HighFence::At(split.separator),
                                 rewrite.sibling, entries.first(middle)};
  const LeafContent right_content{rewrite.version, split.separator, rewrite.high,
                                  rewrite.old_sibling, entries.subspan(middle)};
  return EncodeLeaf(left, rewrite.leaf, geometry, left_content, &split.left_hint) &&
         EncodeLeaf(right, rewrite.sibling, geometry, right_content, &split.right_hint);
}

}  // namespace

std::optional<LeafSplit> EncodeSplit(const LeafRewrite& rewrite, const LeafGeometry& geometry,
                                     std::span<const Entry> entries, bool at_end,
                                     std::span<std::byte> left, std::span<std::byte> right) {
  LeafSplit split;
  if (at_end && TryEncode(rewrite, geometry, entries, entries.size() - 1, left, right, split)) {
    return split;
  }
  // Outwards from the middle: n/2, n/2+1, n/2-1, ...
  const size_t half = entries.size() / 2;
  for (size_t distance = 0; distance <= entries.size(); ++distance) {
    for (const size_t middle : {half + distance, half - distance}) {
      if (middle == 0 || middle >= entries.size()) continue;  // also below 0, which wraps around
      if (TryEncode(rewrite, geometry, entries, middle, left, right, split)) return split;
    }
  }
  return std::nullopt;
}

}  // namespace gossamer
