// Gossamer's cache of internal nodes, with keys and values inside: a SeparatorIndex that leads to
// nodes of pairs (compute/cache/separator_node.h).
//
// A lookup reads what a lookup of the cache reads: in each node the header, a line of digests and a
// line of the payload. The last payload has the key and the value. Lookups of many keys descend
// together (compute/cache/traversal.h).
//
// As in the cache, the keys of a node never change: an insert makes a new leaf and swaps the
// pointer to it, under a mutex. Readers lock nothing: they hold an epoch guard, and replaced leaves
// are freed when no reader can see them. The value of a key that is there is stored in place.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "common/epoch.h"
#include "compute/cache/node_memory.h"
#include "compute/cache/separator_index.h"
#include "compute/cache/traversal.h"
#include "compute/research/lab/index_traversal.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab {

class GossamerTree {
 public:
  static constexpr bool kManyThreads = true;
  static constexpr std::span<const std::string_view> kPrefetches = kPrefetchNames;
  static constexpr size_t kDefaultPrefetch = static_cast<size_t>(Prefetch::kPayload);

  void Insert(Key key, Value value);
  void InsertMany(std::span<const Entry> entries);
  std::optional<Value> Get(Key key) const;
  // Takes `batch` keys at a time, 64 at most.
  void FindMany(std::span<const Key> keys, std::span<std::optional<Value>> values, uint32_t batch,
                size_t prefetch) const;
  size_t Scan(Key from, std::span<Entry> found) const;

  // Of its nodes, and of the gaps between them.
  uint64_t bytes() const { return memory_.arena().mapped_bytes(); }

 private:
  using Pair = SeparatorNode::Pair;
  static constexpr size_t kMaxPairs = SeparatorIndex::kMaxCount;  // of a leaf
  // Keys that are converted at a time.
  static constexpr size_t kChunk = 256;

  // A key's bytes in the order in which the index compares them.
  struct KeyBytes {
    explicit KeyBytes(Key key) : word(__builtin_bswap64(key)) {}
    KeyView view() const { return {reinterpret_cast<const char*>(&word), sizeof word}; }
    uint64_t word;
  };
  // The place whose key is the last that is at most `key`, or of none the leaf's first.
  static Place FindPlace(const SeparatorNode* root, Key key);
  static std::optional<Value> ValueAt(const Place& place, Key key);
  // The calling thread's. A thread remembers that of the tree which it used last.
  EpochReader& Reader() const;
  // No two trees of a process have the same.
  static uint64_t NextId();
  // Under mutex_:
  void InsertLocked(Key key, Value value);
  void SetLeaf(Key low, std::span<const Pair> pairs);

  const uint64_t id_ = NextId();
  mutable NodeMemory memory_;
  SeparatorIndex index_{memory_};
  std::mutex mutex_;
  std::vector<Pair> pairs_;  // of the leaf that is being replaced
  mutable std::mutex readers_mutex_;
  mutable std::map<std::thread::id, EpochReader> readers_;
};

}  // namespace gossamer::lab
