// An ordered map of a library, under one mutex: the least that makes it safe for threads.
//
// A batch takes the mutex once. `Map` is std::map (a red-black tree) or absl::btree_map (a B-tree
// whose nodes have 256 B).
#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <span>

#include "compute/research/lab/tree.h"

namespace gossamer::lab {

template <typename Map>
class LockedMap {
 public:
  static constexpr bool kManyThreads = true;

  void Insert(Key key, Value value) {
    const std::lock_guard lock(mutex_);
    map_.insert_or_assign(key, value);
  }

  std::optional<Value> Get(Key key) const {
    const std::lock_guard lock(mutex_);
    return Find(key);
  }

  size_t Scan(Key from, std::span<Entry> found) const {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    for (auto it = map_.lower_bound(from); it != map_.end() && count < found.size(); ++it) {
      found[count++] = {it->first, it->second};
    }
    return count;
  }

  void FindMany(std::span<const Key> keys, std::span<std::optional<Value>> values) const {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < keys.size(); ++i) values[i] = Find(keys[i]);
  }

  void InsertMany(std::span<const Entry> entries) {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : entries) map_.insert_or_assign(entry.key, entry.value);
  }

 private:
  std::optional<Value> Find(Key key) const {
    const auto it = map_.find(key);
    if (it == map_.end()) return std::nullopt;
    return it->second;
  }

  mutable std::mutex mutex_;
  Map map_;
};

}  // namespace gossamer::lab
