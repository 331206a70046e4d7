#include "compute/tree/write_batch.h"

#include <algorithm>
#include <array>

#include "compute/tree/key_ranks.h"

namespace gossamer {

void WriteBatch::Sort(std::vector<Place>& scratch) {
  if (FindUnsorted() == pairs_.size()) return;
  const size_t common = CommonBytesOfAll(pairs_, [](const KeyValueView& pair) { return pair.key; });
  if (SortByRank(common, scratch)) return;
  scratch.clear();
  // Whether the words are the keys, but for what all have in common.
  const size_t size = pairs_.front().key.size();
  bool are_words = size <= common + sizeof(uint64_t);
  for (size_t i = 0; i < pairs_.size(); ++i) {
    scratch.push_back({KeyPrefix(pairs_[i].key.substr(common)), static_cast<uint32_t>(i)});
    are_words = are_words && pairs_[i].key.size() == size;
  }
  std::ranges::sort(scratch, [this, are_words](const Place& a, const Place& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    if (are_words) return a.index < b.index;
    const KeyView left = pairs_[a.index].key;
    const KeyView right = pairs_[b.index].key;
    return AreEqual(left, right) ? a.index < b.index : PrefixedKey(left) < PrefixedKey(right);
  });
  order_ = scratch;
}

bool WriteBatch::SortByRank(size_t common, std::vector<Place>& scratch) {
  const size_t count = pairs_.size();
  if (count > kMaxRanked) return false;
  std::array<uint64_t, kMaxRanked> words;
  for (size_t i = 0; i < count; ++i) words[i] = KeyPrefix(pairs_[i].key.substr(common));
  std::array<int32_t, kMaxRanked> ranks;
  if (!RankWords(std::span(words).first(count), ranks)) return false;
  scratch.resize(count);
  for (size_t i = 0; i < count; ++i) {
    scratch[static_cast<size_t>(ranks[i])] = {words[i], static_cast<uint32_t>(i)};
  }
  order_ = scratch;
  return true;
}

size_t WriteBatch::FindUnsorted() const {
  uint64_t last = 0;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const uint64_t prefix = KeyPrefix(pairs_[i].key);
    if (prefix < last || (prefix == last && i != 0 && pairs_[i].key < pairs_[i - 1].key)) return i;
    last = prefix;
  }
  return pairs_.size();
}

void WriteBatch::SetResult(size_t position, const Status& status) {
  const size_t index = IndexOf(position);
  if (!results_.empty()) results_[index] = status;
  if (status || index >= first_failed_) return;
  first_failed_ = index;
  first_error_ = status.error();
}

void WriteBatch::SetResults(size_t first, size_t end, const Status& status) {
  if (status && results_.empty()) return;
  for (size_t position = first; position < end; ++position) SetResult(position, status);
}

}  // namespace gossamer
