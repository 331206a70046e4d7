#include "compute/tree/scan_page.h"

#include <algorithm>
#include <utility>

namespace gossamer {

std::optional<std::string> PrefixEnd(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  ++prefix.back();
  return prefix;
}

std::optional<ScanRange> RangeOf(std::string from, std::optional<std::string> to,
                                 const std::string& prefix) {
  ScanRange range{std::move(from), std::move(to)};
  if (!prefix.empty()) {
    range.from = std::max(range.from, prefix);
    std::optional<std::string> end = PrefixEnd(prefix);
    if (end && (!range.to || *end < *range.to)) range.to = std::move(end);
  }
  if (range.to && *range.to <= range.from) return std::nullopt;
  return range;
}

void ScanPage::Clear() {
  entries.clear();
  ready = 0;
  leaves.clear();
  whole.Clear();
  blocks.clear();
  values.clear();
  away.clear();
}

size_t ScanPage::Add(const LeafView& leaf, EntrySorter& sorter, const ScanRange& range,
                     const ScanPosition& position, bool reaches_below, bool reaches_above) {
  const size_t before = entries.size();
  const size_t count = sorter.AppendSorted(leaf, whole, entries);
  const auto first = [&] { return entries.begin() + static_cast<ptrdiff_t>(before); };
  if (reaches_above) {
    const auto is_inside = [&](const ScanEntry& entry) {
      const KeyView key = entry.key();
      return position.below.Admits(key) && (!range.to || key < KeyView(*range.to));
    };
    entries.erase(std::partition_point(first(), entries.end(), is_inside), entries.end());
  }
  if (reaches_below) {
    const auto is_before = [&](const ScanEntry& entry) {
      return entry.key() < position.from.view() || entry.key() < KeyView(range.from);
    };
    entries.erase(first(), std::partition_point(first(), entries.end(), is_before));
  }
  if (range.keys_only) {
    for (auto entry = first(); entry != entries.end(); ++entry) {
      entry->kind = ScanEntry::Kind::kInline;
      entry->length = 0;
    }
  }
  if (range.reverse) std::reverse(first(), entries.end());
  return count;
}

void ScanPage::FindReady() {
  while (ready < entries.size() && entries[ready].kind != ScanEntry::Kind::kReference) ++ready;
}

}  // namespace gossamer
