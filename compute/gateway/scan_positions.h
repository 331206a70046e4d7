// ScanPositions: where scans of Redis clients go on.
//
// A cursor of SCAN is a number, and a position in the store is a key. So the gateway keeps the key for each cursor that it has
// given out: of the last kMost ones. A cursor is good for one call or several, on any connection to this process.
//
// The upper bits of a cursor are a random number of this process. So a cursor of another one, or of an earlier life, is not
// taken for one of this process, which would skip keys. Cursors are less than 2^63, as some clients have no larger integers.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>

namespace gossamer::gateway {

class ScanPositions {
 public:
  static constexpr size_t kMost = 16'384;

  // `process`: a number of 31 bits that other processes hardly have. 0 is for tests: then cursors are 1, 2, 3.
  explicit ScanPositions(uint32_t process = std::random_device{}() >> 1 | 1) : process_(process) {}

  // A new cursor, not 0, for a scan that goes on at `key`.
  uint64_t Add(std::string key) {
    const std::lock_guard guard(mutex_);
    const uint64_t cursor = CursorOf(next_++);
    keys_.emplace(cursor, std::move(key));
    if (keys_.size() > kMost) keys_.erase(CursorOf(oldest_++));
    return cursor;
  }
  // nullopt if the cursor is not known (any more).
  std::optional<std::string> Find(uint64_t cursor) const {
    const std::lock_guard guard(mutex_);
    const auto found = keys_.find(cursor);
    return found == keys_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  uint64_t CursorOf(uint32_t number) const { return process_ << 32 | number; }

  const uint64_t process_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::string> keys_;
  uint32_t next_ = 1;  // this and oldest_ begin again with 0 after 2^32 cursors
  uint32_t oldest_ = 1;
};

}  // namespace gossamer::gateway
