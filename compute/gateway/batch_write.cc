// The writes of a batch.
#include <algorithm>
#include <span>

#include "compute/gateway/batch.h"

namespace gossamer::gateway {
namespace {

// Values that go to the store together: their buffers are in memory together, too.
constexpr size_t kMostWritten = size_t{4} << 20;
constexpr size_t kMostPuts = size_t{64} << 10;

}  // namespace

Task<void> Batch::Write(Session& session) {
  if (!puts_.empty()) co_await RunPuts(session);
  if (change_count_ != 0) co_await RunChanges(session);
  if (!deletes_.empty()) {
    delete_results_.resize(deletes_.size(), Ok());
    co_await session.AsyncMultiDelete(deletes_, delete_results_);
  }
}

Task<void> Batch::RunPuts(Session& session) {
  put_results_.resize(puts_.size(), Ok());
  for (size_t first = 0, end = 0; first < puts_.size(); first = end) {
    size_t bytes = 0;
    while (end < puts_.size() && end - first < kMostPuts &&
           (end == first || bytes < kMostWritten)) {
      bytes += puts_[end++].value.size();
    }
    co_await session.AsyncMultiPut(std::span(puts_).subspan(first, end - first),
                                   std::span(put_results_).subspan(first, end - first));
  }
}

Task<void> Batch::RunChanges(Session& session) {
  changes_by_key_.clear();
  for (size_t i = 0; i < change_count_; ++i) changes_by_key_.push_back(&changes_[i]);
  // Each key's changes one behind the other, as they came; the order of keys does not matter.
  std::ranges::stable_sort(changes_by_key_, [](const ValueChange* a, const ValueChange* b) {
    return a->key_hash() != b->key_hash() ? a->key_hash() < b->key_hash() : a->key() < b->key();
  });
  key_changes_.clear();
  for (auto first = changes_by_key_.begin(); first != changes_by_key_.end();) {
    const auto end = std::find_if(first, changes_by_key_.end(), [first](const ValueChange* one) {
      return one->key_hash() != (*first)->key_hash() || one->key() != (*first)->key();
    });
    key_changes_.emplace_back(std::span(first, end));
    first = end;
  }
  modifiers_.clear();
  for (KeyChanges& changes : key_changes_) modifiers_.push_back({changes.key(), &changes});
  change_results_.assign(modifiers_.size(), Ok());
  co_await session.AsyncMultiModify(modifiers_, change_results_);
  for (size_t i = 0; i < modifiers_.size(); ++i) key_changes_[i].SetResult(change_results_[i]);
}

}  // namespace gossamer::gateway
