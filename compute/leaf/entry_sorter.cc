// No allocation for an entry, no virtual call.
#include "compute/leaf/entry_sorter.h"

#include <algorithm>
#include <array>
#include <optional>

#include "compute/leaf/key_ranks.h"
#include "compute/rules/rules.h"
#include "proto/key.h"

namespace gossamer {
namespace {

ScanEntry::Kind KindOf(Entry::Kind kind) {
  using Known = ScanEntry::Kind;
  if (kind == Entry::Kind::kInline) return Known::kInline;
  return kind == Entry::Kind::kBlock ? Known::kReference : Known::kLong;
}

// As ScanEntry has it.
uint8_t ExpiryAt(const Entry& entry) {
  static_assert(kMaxInlineValueBytes + 1 <= UINT8_MAX);
  return static_cast<uint8_t>(entry.expires() ? entry.stored.size() + 1 : 0);
}

}  // namespace

size_t EntrySorter::AppendSorted(const LeafView& leaf, KeyArena& arena,
                                 std::vector<ScanEntry>& sorted) {
  const size_t first = sorted.size();
  const size_t count = leaf.count();
  has_long_ = false;
  if (count == 0) return 0;
  entries_.resize(count);
  words_.resize(count);
  sorted.resize(first + count);
  size_t copied = 0;
  for (uint32_t unit = 0; unit < leaf.unit_count(); ++unit) {
    if (leaf.prefix().empty()) {
      Copy(leaf.unit(unit), copied);
    } else {
      CopyWhole(leaf.unit(unit), arena, copied);
    }
    copied += leaf.unit(unit).count();
  }
  if (SortByRank(&sorted[first]) || SortBehindPrefix(&sorted[first])) return count;
  const size_t distinct = SortByComparison(&sorted[first]);
  sorted.resize(first + distinct);
  return distinct;
}

void EntrySorter::Copy(const GroupView& group, size_t at) {
  using Kind = ScanEntry::Kind;
  ScanEntry* entry = entries_.data() + at;
  uint64_t* word = words_.data() + at;
  const std::optional<GroupView::Array> array = group.AsArray();
  if (!array || array->key_bytes < sizeof *word) {
    group.ForEach([&](const Entry& other) {
      *entry++ = {other.key.data(), static_cast<uint32_t>(other.stored.size()),
                  static_cast<uint8_t>(other.key.size()), KindOf(other.kind), ExpiryAt(other)};
      has_long_ = has_long_ || other.is_long();
      *word++ = KeyPrefix(other.key);
    });
    return;
  }
  const uint32_t stride = array->stride();
  const auto key_bytes = static_cast<uint8_t>(array->key_bytes);
  const Kind kind = KindOf(array->kind);
  const auto expiry_at = static_cast<uint8_t>(array->expires ? array->stored_bytes + 1 : 0);
  has_long_ = has_long_ || kind == Kind::kLong;
  const char* from = array->first;
  for (uint32_t i = 0; i < group.count(); ++i, from += stride) {
    *entry++ = {from, array->stored_bytes, key_bytes, kind, expiry_at};
    *word++ = KeyPrefix({from, sizeof *word});
  }
}

// In whole words: what is copied behind an entry is overwritten by the next one, or lies behind all
// of them.
void EntrySorter::CopyWhole(const GroupView& group, KeyArena& arena, size_t at) {
  constexpr size_t kWord = sizeof(uint64_t);
  static_assert(kWord <= kTrailerBytes, "what follows the last unit");
  const KeyView prefix = group.prefix();
  char* to = arena.Allocate(group.entry_bytes() + group.count() * prefix.size());
  ScanEntry* entry = entries_.data() + at;
  uint64_t* word = words_.data() + at;
  const auto copy = [&to](const char* from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += kWord) std::memcpy(to + i, from + i, kWord);
    to += bytes;
  };
  const bool is_short = prefix.size() <= kWord;
  const uint64_t first = FirstBytes(prefix);
  group.ForEach([&](const Entry& other) {
    char* const begin = to;
    if (is_short) {
      std::memcpy(to, &first, kWord);
      to += prefix.size();
    } else {
      prefix.copy(to, prefix.size());
      to += prefix.size();
    }
    // The key and what is stored for it lie side by side.
    copy(other.key.data(), other.key.size() + other.StoredAndExpiryBytes());
    const KeyView key(begin, prefix.size() + other.key.size());
    *entry++ = {begin, static_cast<uint32_t>(other.stored.size()), static_cast<uint8_t>(key.size()),
                KindOf(other.kind), ExpiryAt(other)};
    has_long_ = has_long_ || other.is_long();
    *word++ = KeyPrefix(key);
  });
}

bool EntrySorter::SortBehindPrefix(ScanEntry* sorted) {
  const size_t prefix =
      CommonBytesOfAll(entries_, [](const ScanEntry& entry) { return entry.key(); });
  for (size_t i = 0; i < entries_.size(); ++i) {
    words_[i] = KeyPrefix(entries_[i].key().substr(prefix));
  }
  return prefix != 0 && SortByRank(sorted);
}

bool EntrySorter::SortByRank(ScanEntry* sorted) {
  std::array<int32_t, kMaxRanked> ranks;
  if (!RankWords(words_, ranks)) return false;
  for (size_t i = 0; i < words_.size(); ++i) sorted[ranks[i]] = entries_[i];
  return true;
}

size_t EntrySorter::SortByComparison(ScanEntry* sorted) {
  order_.resize(entries_.size());
  for (size_t i = 0; i < order_.size(); ++i) order_[i] = static_cast<uint32_t>(i);
  std::ranges::sort(order_, [this](uint32_t a, uint32_t b) {
    if (words_[a] != words_[b]) return words_[a] < words_[b];
    // What a long key begins with is not above the key, and may be all of it: so it comes before
    // the same key as another unit has it whole.
    const int order = entries_[a].key().compare(entries_[b].key());
    return order != 0 ? order < 0 : entries_[a].kind > entries_[b].kind;
  });
  for (size_t i = 0; i < order_.size(); ++i) sorted[i] = entries_[order_[i]];
  // If one key was seen twice, either entry was there during the scan.
  const auto is_seen_twice = [](const ScanEntry& a, const ScanEntry& b) {
    const bool are_whole = a.kind != ScanEntry::Kind::kLong && b.kind != ScanEntry::Kind::kLong;
    return are_whole && rules::IsSeenTwice(a.key(), b.key());
  };
  ScanEntry* const end = std::unique(sorted, sorted + order_.size(), is_seen_twice);
  return static_cast<size_t>(end - sorted);
}

}  // namespace gossamer
