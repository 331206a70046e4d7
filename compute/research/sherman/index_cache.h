// IndexCache: a compute server's copies of internal nodes, as Sherman's: nodes of level 1 that were
// visited, up to a bound, and the two top levels.
//
// A copy may be out of date. The fences of the node that it leads to show that, and the reader
// calls Forget. A copy that would exceed the bound takes the place of the less recently used one of
// two that are chosen at random.
//
// The paper finds copies by a skip list without locks; here it is an ordered map under a lock that
// readers share.
//
// Thread-safety: thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "common/random.h"
#include "compute/research/sherman/node.h"

namespace gossamer::sherman {

class IndexCache {
 public:
  // Bounds the copies of level 1, in bytes. At least one fits.
  explicit IndexCache(uint64_t most_bytes)
      : most_copies_(most_bytes < kNodeBytes ? 1 : most_bytes / kNodeBytes) {}

  // The child for `key`, of the node of `level` that covers it; nullopt if there is no copy.
  std::optional<RemotePtr> Find(uint32_t level, Key key) const;
  // Appends leaves for the keys from `key` on, at most `most`, all of one parent. None if there is
  // no copy of it.
  void FindLeaves(Key key, size_t most, std::vector<RemotePtr>& leaves) const;
  // Copies a node of level 1, or of the two levels that end with `root_level`. Returns how many
  // copies were evicted for it: 0 or 1.
  uint64_t Put(const InternalNode& node, uint32_t root_level);
  // Drops the copy that Find uses.
  void Forget(uint32_t level, Key key);

  uint64_t bytes() const { return copies_.load(std::memory_order_relaxed) * kNodeBytes; }

 private:
  struct Copy {
    explicit Copy(const InternalNode& from) : node(from) {}

    InternalNode node;
    mutable std::atomic<uint64_t> used_at = 0;
    size_t index = 0;  // level 1: in by_index_
  };
  using Level = std::map<Key, Copy>;  // by low fence

  // Null if no copy covers the key. Requires (unchecked): the lock.
  const Copy* Covering(uint32_t level, Key key) const;
  // The same, which counts as a use of the copy.
  const Copy* Use(uint32_t level, Key key) const;
  void Erase(uint32_t level, Level::iterator copy);
  void EvictOne();

  static constexpr uint32_t kLevels = 32;  // RootWord::kMaxLevel + 1

  const uint64_t most_copies_;  // of level 1
  mutable std::shared_mutex mutex_;
  std::array<Level, kLevels> levels_;      // guarded by mutex_
  std::vector<Level::iterator> by_index_;  // level 1's; guarded by mutex_
  Random random_{1};                       // guarded by mutex_
  std::atomic<uint64_t> copies_ = 0;
  std::atomic<uint64_t> clock_ = 0;  // one more for each node put
};

}  // namespace gossamer::sherman
