// NodeCache: the internal nodes and the root word that a compute server caches.
//
// A lookup finds the leaf for a key, with its hint, without a lock, and without a round trip if
// every node of the path is cached. A stale answer is harmless: the fences in the leaf reveal it.
// The operation that finds a stale node calls `Invalidate`. Lookups then no longer find the node,
// but its hints are kept for its return while there is room.
//
// The cache evicts by second chance. It never exceeds its bound in bytes: it makes room before a
// node enters. Nodes removed while readers may still see them (about 64 at most) are not counted.
//
// Thread-safety: shared by all threads of a compute server; each has a `Reader`. Lookups never
// block and allocate nothing. Changes hold a mutex for a few pointer writes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "compute/cache/cached_node.h"
#include "compute/cache/epoch.h"
#include "compute/cache/leaf_hint.h"
#include "compute/cache/search_goal.h"
#include "gossamer/counters.h"
#include "proto/key.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class NodeCache {
 public:
  using Reader = EpochReader;

  // Where a descent got to without a round trip.
  struct Step {
    RemotePtr node;  // the node sought if `level` is; else the first node not cached
    uint32_t level = 0;
    RemotePtr parent;   // the cached node with the pointer to `node`; null: the root word
    uint64_t hint = 0;  // LeafHint of `node`, if it is a leaf with a cached parent
    Key low;            // the low fence of `node` according to its parent

    bool has_parent() const { return !parent.is_null(); }
  };

  // One of several neighbouring leaves.
  struct LeafRef {
    RemotePtr leaf;
    RemotePtr parent;
    Key low;
  };

  // Holds at most `max_bytes` of nodes. A larger node is not cached.
  explicit NodeCache(uint64_t max_bytes);
  ~NodeCache();
  NodeCache(const NodeCache&) = delete;
  NodeCache& operator=(const NodeCache&) = delete;

  EpochDomain& epochs() { return epochs_; }

  RootWord root() const { return RootWord::FromWord(root_.load(std::memory_order_acquire)); }
  void SetRoot(RootWord root) { root_.store(root.word(), std::memory_order_release); }

  // Descends from the root to `level`. Returns nullopt if the root word is unknown.
  std::optional<Step> Find(Reader& reader, const SearchGoal& goal, uint32_t level) const;
  // Descends from `from`, as far as nodes are cached.
  Step FindFrom(Reader& reader, const Step& from, const SearchGoal& goal, uint32_t level) const;
  // Appends up to `limit` neighbouring leaves whose parents are cached: first the leaf for `key`,
  // then those to its right. Returns their number.
  size_t CollectRight(Reader& reader, KeyView key, size_t limit,
                      std::vector<LeafRef>& leaves) const;
  // The same to the left, from the last leaf that starts below `bound`.
  size_t CollectLeft(Reader& reader, const HighFence& bound, size_t limit,
                     std::vector<LeafRef>& leaves) const;

  // `Insert`, `InsertSplit` and `InsertChild` return how many other nodes they evicted.
  //
  // Caches `node`, read or written whole at `pointer`, unless a newer version is cached. Children
  // that stay keep their hints.
  uint32_t Insert(RemotePtr pointer, const InternalNode& node);
  // Caches both halves of a split node. Hints move with the children.
  uint32_t InsertSplit(RemotePtr left_pointer, const InternalNode& left, RemotePtr right_pointer,
                       const InternalNode& right);
  // Adds a leaf that this compute server has split off to the cached `parent`, before the parent
  // itself is updated. Meanwhile this compute server's operations need not go through the left
  // neighbour.
  uint32_t InsertChild(RemotePtr parent, const Key& separator, RemotePtr leaf);
  // Forgets the node, except for its hints. Does nothing if the node is not cached.
  void Invalidate(RemotePtr pointer);
  // Changes the hint of `leaf`, which contains `key`, in `parent`.
  void PatchHint(Reader& reader, RemotePtr parent, KeyView key, RemotePtr leaf,
                 const HintPatch& patch);
  void ReplaceHint(Reader& reader, RemotePtr parent, KeyView key, RemotePtr leaf, uint64_t hint) {
    PatchHint(reader, parent, key, leaf, {~uint64_t{0}, hint});
  }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  const CachedNode* Lookup(RemotePtr pointer) const;
  // Also finds a forgotten node.
  const CachedNode* LookupAny(RemotePtr pointer) const;
  // Calls visit(node) in a guard, with the level 1 node for `goal`. Returns false if it is not
  // cached.
  template <typename Visit>
  bool VisitParent(Reader& reader, const SearchGoal& goal, Visit&& visit) const;
  std::atomic<uint64_t>* FindHint(RemotePtr parent, KeyView key, RemotePtr leaf) const;
  std::atomic<CachedNode*>& Bucket(RemotePtr pointer) const;
  // Under mutex_:
  // Whether `old`, which may be null, is newer than `fresh`, a version of the same node.
  static bool IsOlder(const CachedNode& fresh, const CachedNode* old);
  // Adds `fresh`, and removes the cached version of the same node.
  uint32_t Put(CachedNode* fresh);
  static void KeepHints(const CachedNode& old, const CachedNode& fresh);
  void Link(CachedNode* node);
  void Unlink(CachedNode* node);
  // Returns the number of evicted nodes. Never evicts `kept`, which may be null.
  uint32_t EvictDownTo(uint64_t max_bytes, const CachedNode* kept);

  const uint64_t max_bytes_;
  const size_t bucket_mask_;
  const std::unique_ptr<std::atomic<CachedNode*>[]> buckets_;
  std::atomic<uint64_t> root_{0};
  std::atomic<uint64_t> bytes_{0};

  std::mutex mutex_;
  EpochDomain epochs_;
  // All nodes form a ring that the clock hand walks (GCLOCK, Smith '78). A new node enters just
  // before the hand, and so has a whole round to be used. A used node gets as many chances as its
  // level, because nodes below it cannot be found without it. The root is never evicted for another
  // node.
  CachedNode* hand_ = nullptr;
  size_t count_ = 0;
};

}  // namespace gossamer
