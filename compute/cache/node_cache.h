// NodeCache: the internal nodes that a compute server remembers, and the root word.
//
// Answers "which leaf, with which hint, for this key" without a lock on the read side and without a round
// trip when every node of the path is there. A stale answer is harmless: fences in the leaf tell (design
// section 4); whoever finds one calls `Invalidate`: the node is not found any more, but the hints in it wait for the
// node to come back, as long as there is room. Bounded in bytes at every moment, as room is made before a node comes in;
// evicts by second chance. (Nodes taken out while a reader may still look at them, some 64 at most, are not counted.)
//
// Thread-safety: all threads of a compute server share it; each has a `Reader`. Lookups never block and allocate
// nothing; changes take a mutex for the time of a few pointer writes.
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
    RemotePtr node;  // the node sought, if level is the level sought; else the first one not cached
    uint32_t level = 0;
    RemotePtr parent;   // the cached node that named it; null: the root word did
    uint64_t hint = 0;  // LeafHint of `node`, if it is a leaf with a cached parent
    Key low;            // the low fence that the parent states for it

    bool has_cached_parent() const { return !parent.is_null(); }
  };

  // One leaf of a run of neighbours.
  struct LeafRef {
    RemotePtr leaf;
    RemotePtr parent;
    Key low;
  };

  // Holds at most `max_bytes` of nodes; none larger than that.
  explicit NodeCache(uint64_t max_bytes);
  ~NodeCache();
  NodeCache(const NodeCache&) = delete;
  NodeCache& operator=(const NodeCache&) = delete;

  EpochDomain& epochs() { return epochs_; }

  RootWord root() const { return RootWord::FromWord(root_.load(std::memory_order_acquire)); }
  void SetRoot(RootWord root) { root_.store(root.word(), std::memory_order_release); }

  // Descends from the root to `level`. Nothing when the root word is unknown.
  std::optional<Step> Find(Reader& reader, const SearchGoal& goal, uint32_t level) const;
  // Descends from `from`, as far as nodes are cached.
  Step FindFrom(Reader& reader, const Step& from, const SearchGoal& goal, uint32_t level) const;
  // Appends up to `limit` neighbouring leaves as far as their parents are cached: the one for `key` first, then
  // those right of it. Returns how many.
  size_t CollectRight(Reader& reader, KeyView key, size_t limit,
                      std::vector<LeafRef>& leaves) const;
  // The last leaf that starts below `bound` first, then those left of it.
  size_t CollectLeft(Reader& reader, const HighFence& bound, size_t limit,
                     std::vector<LeafRef>& leaves) const;

  // These three return how many other nodes went for it.
  // Remembers `node` as read or written whole at `pointer`, unless a newer version is there. Hints of children
  // that stay are kept.
  uint32_t Insert(RemotePtr pointer, const InternalNode& node);
  // The same of both halves of a node that has been split: hints go with the children.
  uint32_t InsertSplit(RemotePtr left_pointer, const InternalNode& left, RemotePtr right_pointer,
                       const InternalNode& right);
  // Adds a leaf that this compute server has split off to what is remembered of `parent`, ahead of the parent itself:
  // no own operation takes the way over the left neighbour meanwhile.
  uint32_t InsertChild(RemotePtr parent, const Key& separator, RemotePtr leaf);
  // Forgets the node, but for the hints in it; nothing happens if it is not there.
  void Invalidate(RemotePtr pointer);
  // Changes the hint of the leaf `leaf`, which has `key`, under `parent`.
  void PatchHint(Reader& reader, RemotePtr parent, KeyView key, RemotePtr leaf,
                 const HintPatch& patch);
  void ReplaceHint(Reader& reader, RemotePtr parent, KeyView key, RemotePtr leaf, uint64_t hint) {
    PatchHint(reader, parent, key, leaf, {~uint64_t{0}, hint});
  }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  const CachedNode* Lookup(RemotePtr pointer) const;
  // Also one that was forgotten.
  const CachedNode* LookupAny(RemotePtr pointer) const;
  // Looks up the node at level 1 for `goal`, calls visit(node) inside a guard. False if it is not cached.
  template <typename Visit>
  bool VisitParent(Reader& reader, const SearchGoal& goal, Visit&& visit) const;
  std::atomic<uint64_t>* FindHint(RemotePtr parent, KeyView key, RemotePtr leaf) const;
  std::atomic<CachedNode*>& Bucket(RemotePtr pointer) const;
  // Under mutex_:
  // Whether what is remembered of the node of `fresh`, and may be null, is newer.
  static bool IsOlder(const CachedNode& fresh, const CachedNode* old);
  // Puts `fresh` in, in the place of what is there of the same node.
  uint32_t Put(CachedNode* fresh);
  static void KeepHints(const CachedNode& old, const CachedNode& fresh);
  void Link(CachedNode* node);
  void Unlink(CachedNode* node);
  // Returns how many nodes it took; `kept`, which may be null, is not among them.
  uint32_t EvictDownTo(uint64_t max_bytes, const CachedNode* kept);

  const uint64_t max_bytes_;
  const size_t bucket_mask_;
  const std::unique_ptr<std::atomic<CachedNode*>[]> buckets_;
  std::atomic<uint64_t> root_{0};
  std::atomic<uint64_t> bytes_{0};

  std::mutex mutex_;
  EpochDomain epochs_;
  // All nodes stand in a ring, round which the hand goes (GCLOCK, Smith '78). A new one comes just before the hand: it
  // has a whole round to be used in. One that is used gets as many chances as its level: without those above it, a node
  // cannot be found. The root goes for nobody, so that a cache which holds but that is of use.
  CachedNode* hand_ = nullptr;
  size_t count_ = 0;
};

}  // namespace gossamer
