// ScanPositions: where scans of Redis clients go on.
//
// A cursor of SCAN is a number, and a position in the store is a key. So the gateway keeps the key for each cursor that it has
// given out: of the last kMost ones. A cursor is good for one call or several, on any connection to this process.
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

namespace gossamer::gateway {

class ScanPositions {
 public:
  static constexpr size_t kMost = 16'384;

  // A new cursor, not 0, for a scan that goes on at `key`.
  uint64_t Add(std::string key) {
    const std::lock_guard guard(mutex_);
    const uint64_t cursor = next_++;
    keys_.emplace(cursor, std::move(key));
    if (keys_.size() > kMost) keys_.erase(oldest_++);
    return cursor;
  }
  // nullopt if the cursor is not known (any more).
  std::optional<std::string> Find(uint64_t cursor) const {
    const std::lock_guard guard(mutex_);
    const auto found = keys_.find(cursor);
    return found == keys_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::string> keys_;
  uint64_t next_ = 1;
  uint64_t oldest_ = 1;
};

}  // namespace gossamer::gateway
