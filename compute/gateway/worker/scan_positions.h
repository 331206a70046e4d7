// ScanPositions: where scans of Redis clients go on that this compute server has begun.
//
// A cursor of SCAN is a `ScanBookmark`. Every compute server of the store can go on with it. If the
// node is gone that it names, the scan begins again. For its own last kMost cursors a compute
// server knows the position itself.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "gossamer/store.h"

namespace gossamer::gateway {

class ScanPositions {
 public:
  static constexpr size_t kMost = 16'384;

  // A scan with this cursor goes on at `key`.
  void Add(uint64_t cursor, std::string key) {
    const std::lock_guard guard(mutex_);
    const bool is_new = keys_.insert_or_assign(cursor, std::move(key)).second;
    if (is_new) cursors_.push_back(cursor);
    if (cursors_.size() <= kMost) return;
    keys_.erase(cursors_.front());
    cursors_.pop_front();
  }
  // Has a scan go on at `cursor`, if that is not 0: where it is known, or else at the bookmark.
  void GoOnAt(uint64_t cursor, ScanOptions& range) const {
    if (cursor == 0) return;
    if (std::optional<std::string> position = Find(cursor)) {
      range.from = std::move(*position);
    } else {
      range.resume_at = cursor;
    }
  }

 private:
  // nullopt if the cursor is not known (any more).
  std::optional<std::string> Find(uint64_t cursor) const {
    const std::lock_guard guard(mutex_);
    const auto found = keys_.find(cursor);
    return found == keys_.end() ? std::nullopt : std::optional(found->second);
  }

  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::string> keys_;
  std::deque<uint64_t> cursors_;  // in the order in which they came
};

}  // namespace gossamer::gateway
