#include "compute/tree/write_batch.h"

#include <algorithm>

namespace gossamer {

void WriteBatch::Sort(std::vector<Place>& scratch) {
  scratch.clear();
  bool is_sorted = true;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    scratch.push_back({KeyPrefix(pairs_[i].key), static_cast<uint32_t>(i)});
    is_sorted = is_sorted && (i == 0 || pairs_[i - 1].key <= pairs_[i].key);
  }
  if (is_sorted) return;
  std::ranges::sort(scratch, [this](const Place& a, const Place& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    const KeyView left = pairs_[a.index].key;
    const KeyView right = pairs_[b.index].key;
    const int order = left.compare(right);
    return order != 0 ? order < 0 : a.index < b.index;
  });
  order_ = scratch;
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
