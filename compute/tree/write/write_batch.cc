#include "compute/tree/write/write_batch.h"

namespace gossamer {

void WriteBatch::Sort(KeyOrder& order) {
  if (FindUnsorted(pairs_) == pairs_.size()) return;
  order.Sort(pairs_);
  order_ = order.places;
}

void WriteBatch::SetResult(size_t position, const Status& status) {
  const size_t index = IndexOf(position);
  if (!results_.empty()) results_[index] = status;
  if (status) return;
  ++failed_;
  if (index >= first_failed_) return;
  first_failed_ = index;
  first_error_ = status.error();
}

void WriteBatch::SetResults(size_t first, size_t end, const Status& status) {
  if (status && results_.empty()) return;
  for (size_t position = first; position < end; ++position) SetResult(position, status);
}

}  // namespace gossamer
