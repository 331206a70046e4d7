#include "compute/tree/read/scan_page.h"

#include <algorithm>
#include <span>
#include <utility>

#include "compute/rules/rules.h"

namespace gossamer {
namespace {

using Kind = ScanEntry::Kind;

}  // namespace

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

bool ScanRange::removes_expired() const {
  return wanted == Wanted::kAlive && !rules::SaysGoneWithoutLock();
}

void ScanPage::Clear() {
  entries.clear();
  positions.clear();
  ready = 0;
  leaves.clear();
  whole.Clear();
  blocks.clear();
  values.clear();
  away.clear();
  away_expiries.clear();
}

size_t ScanPage::Add(const LeafView& leaf, EntrySorter& sorter, const ScanRange& range,
                     const ScanPosition& position, bool reaches_below, bool reaches_above) {
  const size_t before = entries.size();
  if (before == 0) start = position;
  const size_t count = sorter.AppendSorted(leaf, whole, entries);
  if (sorter.has_long()) {
    AddLong(before, range, position);
    return count;
  }
  const auto first = [&] { return entries.begin() + static_cast<ptrdiff_t>(before); };
  if (reaches_above) {
    const auto is_inside = [&](const ScanEntry& entry) {
      return IsBeforeEnd(entry.key(), range, position);
    };
    entries.erase(std::partition_point(first(), entries.end(), is_inside), entries.end());
  }
  if (reaches_below) {
    const auto is_before = [from = StartOf(range, position)](const ScanEntry& entry) {
      return entry.key() < from;
    };
    entries.erase(first(), std::partition_point(first(), entries.end(), is_before));
  }
  if (range.keys_only) DropValues(before);
  if (range.reverse) std::reverse(first(), entries.end());
  return count;
}

void ScanPage::DropValues(size_t first) {
  for (ScanEntry& entry : std::span(entries).subspan(first)) {
    if (entry.kind == Kind::kLong) continue;
    entry.kind = Kind::kInline;
    entry.length = 0;
  }
}

void ScanPage::AddLong(size_t first, const ScanRange& range, const ScanPosition& position) {
  const KeyView from = StartOf(range, position);
  const auto is_outside = [&](const ScanEntry& entry) {
    const KeyView key = entry.key();
    const bool may_be_inside = entry.kind == Kind::kLong && from.starts_with(key);
    return !IsBeforeEnd(key, range, position) || (key < from && !may_be_inside);
  };
  const auto begin = entries.begin() + static_cast<ptrdiff_t>(first);
  entries.erase(std::remove_if(begin, entries.end(), is_outside), entries.end());
  for (ScanEntry& entry : std::span(entries).subspan(first)) {
    if (entry.kind == Kind::kLong) entry.length = static_cast<uint32_t>(positions.size());
  }
  positions.push_back(position);
  if (range.keys_only) DropValues(first);
  if (!range.reverse) return;
  // In reverse, too, a long key comes before all keys that begin with its first bytes.
  for (size_t i = entries.size(); i-- > first;) {
    if (entries[i].kind != Kind::kLong) continue;
    const auto at = entries.begin() + static_cast<ptrdiff_t>(i);
    std::rotate(at, at + 1, entries.begin() + static_cast<ptrdiff_t>(EndOfTie(i)));
  }
  std::reverse(entries.begin() + static_cast<ptrdiff_t>(first), entries.end());
}

void ScanPage::Pass(KeyView key, bool reverse) {
  if (reverse) {
    start.below = HighFence::At(key);
  } else if (key.size() < kMaxKeyBytes) {
    start.from = Key(key, KeyView("\0", 1));
  } else if (const std::optional<std::string> next = PrefixEnd(std::string(key))) {
    start.from = Key(*next);
  }
}

void ScanPage::FindReady(const ScanRange& range, const SessionClock& clock) {
  const auto is_dead = [&](const ScanEntry& entry) {
    return entry.expiry_at != 0 && !clock.IsAlive(ExpiryOf(entry));
  };
  size_t kept = ready;
  size_t end = ready;
  for (; end < entries.size() && entries[end].kind != Kind::kLong; ++end) {
    const bool is_alive = !is_dead(entries[end]);
    if (!is_alive && range.removes_expired()) break;
    if (!range.Wants(is_alive)) continue;
    if (WantsBlock(entries[end])) break;
    if (kept != end) entries[kept] = entries[end];
    ++kept;
  }
  if (kept != end) {
    entries.erase(entries.begin() + static_cast<ptrdiff_t>(kept),
                  entries.begin() + static_cast<ptrdiff_t>(end));
  }
  ready = kept;
}

std::vector<KeyView> ScanPage::ExpiredNext(const ScanRange& range,
                                           const SessionClock& clock) const {
  std::vector<KeyView> keys;
  if (!range.removes_expired()) return keys;
  for (size_t number = ready; number < entries.size(); ++number) {
    const ScanEntry& entry = entries[number];
    const bool has_expired =
        entry.kind != Kind::kLong && entry.expiry_at != 0 && !clock.IsAlive(ExpiryOf(entry));
    if (has_expired) keys.push_back(entry.key());
    if (keys.empty()) break;
  }
  return keys;
}

size_t ScanPage::EndOfTie(size_t first) const {
  size_t end = first + 1;
  while (end < entries.size() && entries[end].key().starts_with(entries[first].key())) ++end;
  return end;
}

void ScanPage::Sort(size_t first, size_t end, bool reverse) {
  const auto begin = entries.begin() + static_cast<ptrdiff_t>(first);
  const auto last = entries.begin() + static_cast<ptrdiff_t>(end);
  std::stable_sort(begin, last, [reverse](const ScanEntry& a, const ScanEntry& b) {
    return reverse ? b.key() < a.key() : a.key() < b.key();
  });
  const auto distinct = std::unique(begin, last, [](const ScanEntry& a, const ScanEntry& b) {
    return rules::IsSeenTwice(a.key(), b.key());
  });
  entries.erase(distinct, last);
}

}  // namespace gossamer
