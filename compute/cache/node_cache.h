// NodeCache: the internal nodes and the root word that a compute server caches.
//
// A lookup finds the leaf for a key, with its hint, without a lock, and without a round trip if the
// leaf's parent is cached. A stale answer is harmless: the fences in the leaf reveal it. The
// operation that finds a stale node calls `Forget`. Lookups then no longer find the node, but its
// hints are kept for its return while there is room.
//
// The cache does not follow the tree's pointers from node to node. For each level it has an index
// of its own (SeparatorIndex) from low fences to nodes, so that a lookup searches one index, of
// some megabytes for 50 M records, and one node. Only if the node of level 1 is missing, the index
// of level 2 is asked for it, and so on up to the root word. A key range belongs to one node of a
// level at most: a node that enters displaces others from its range.
//
// The cache never exceeds its bound in bytes: it makes room before a node enters. What goes is what
// was of least use: see `Reader`. The bound is of the nodes that lookups can find. Not counted are
// nodes that were removed while readers may still see them: some 64, and while a reader has lost
// its processor in a lookup, all that are replaced meanwhile. Nor is free memory between the nodes:
// a fifth or so.
//
// Admission: to replace a cached node costs more processor time than a miss. A missed node that
// fits only after an eviction is admitted once in kMissesPerAdmission misses, by a pseudo-random
// draw. A node that is missed often enters soon. Nodes of equal use replace each other so many
// times more slowly.
//
// Thread-safety: shared by all threads of a compute server; each has a `Reader`. Lookups never
// block and write nothing that another thread reads on its way. They allocate nothing, but what
// collects nodes appends to its caller's vector. Changes hold a mutex.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "compute/cache/batch_tuner.h"
#include "compute/cache/node_memory.h"
#include "compute/cache/search_goal.h"
#include "compute/cache/separator_index.h"
#include "compute/cache/separator_node.h"
#include "compute/cache/traversal.h"
#include "compute/counters/session_counts.h"
#include "compute/leaf/leaf_hint.h"
#include "proto/internal_node.h"
#include "proto/key.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// CachedNode: an internal node of the tree as the cache keeps it: a SeparatorNode whose payload is
// the children, of a level 1 node each with its LeafHint, and a tail with what the tree needs to
// know of it.
//
// Thread-safety: immutable, except hints (atomics) and what is marked as the cache's (under its
// mutex). Readers hold an epoch guard.
class CachedNode {
 public:
  CachedNode() = default;
  explicit CachedNode(const SeparatorNode* node) : node_(const_cast<SeparatorNode*>(node)) {}

  // Makes a node that no reader can find yet. `separators`: of `node`, with children and hints.
  static CachedNode Make(NodeArena& arena, SeparatorList& separators, RemotePtr pointer,
                         const InternalNode& node);
  // A copy of `old`, of level 1, with more children behind child `index`. They get no hints.
  // Requires: the separators of `children` ascend, and lie between those of child `index` and the
  // next one.
  static CachedNode MakeWithChildren(NodeArena& arena, SeparatorList& separators, CachedNode old,
                                     uint32_t index, std::span<const InternalNode::Child> children);

  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(const CachedNode&, const CachedNode&) = default;
  SeparatorNode* node() const { return node_; }

  RemotePtr pointer() const { return RemotePtr::FromWord(tail().pointer); }
  NodeVersion version() const { return tail().version; }
  // Whether this has the content of `node` at `pointer`, but for the version. A child's low fence
  // never changes: of equal children the separators are equal.
  bool HasContentOf(RemotePtr pointer, const InternalView& node) const;
  // Whether `node` at `pointer` is the next version, and this has the children `added` that it has
  // more. False if there are none.
  bool HasGrownTo(RemotePtr pointer, const InternalView& node,
                  std::span<const InternalNode::Child> added) const;
  uint32_t level() const { return tail().level; }
  uint32_t count() const { return node_->count(); }
  uint32_t bytes() const { return node_->bytes(); }
  Key low() const { return node_->separator(0); }
  HighFence high() const {
    return tail().is_last ? HighFence{} : HighFence::At({high_key(), tail().high_bytes});
  }

  Key separator(uint32_t i) const { return node_->separator(i); }
  RemotePtr child(uint32_t i) const {
    return RemotePtr::FromWord(node_->payload(i).load(std::memory_order_relaxed));
  }
  // The LeafHint of child `i`. Requires: level 1.
  std::atomic<uint64_t>& hint(uint32_t i) const {
    assert(level() == 1);
    return node_->payload(i, 1);
  }
  // As in InternalNode.
  uint32_t ChildIndex(KeyView key) const { return node_->ChildIndex(key); }
  uint32_t ChildIndexBelow(KeyView bound) const { return node_->ChildIndexBelow(bound); }

  // The cache's: neighbours in the ring of all nodes, and the measured benefit.
  struct Upkeep {
    SeparatorNode* before;
    SeparatorNode* behind;
    uint32_t benefit;
  };
  Upkeep& upkeep() const { return tail().upkeep; }
  // Under the cache's mutex, as version().
  void SetVersion(NodeVersion version) const { tail().version = version; }

 private:
  struct Tail {
    uint64_t pointer;
    Upkeep upkeep;
    NodeVersion version;
    uint8_t level;
    bool is_last;  // the high fence is infinite
    uint16_t high_bytes;
  };
  // Behind the tail.
  char* high_key() const { return reinterpret_cast<char*>(&tail() + 1); }
  Tail& tail() const { return *reinterpret_cast<Tail*>(node_->tail()); }
  static CachedNode Make(NodeArena& arena, const SeparatorList& separators, uint64_t pointer,
                         NodeVersion version, uint32_t level, const HighFence& high);
  static uint32_t TailBytes(const HighFence& high);
  // Fills the tail of a new node.
  static CachedNode Finish(SeparatorNode* node, uint64_t pointer, NodeVersion version,
                           uint32_t level, const HighFence& high);

  SeparatorNode* node_ = nullptr;
};

class NodeCache {
 public:
  // Where a descent got to without a round trip.
  struct Step {
    RemotePtr node;  // the node sought if `level` is; else the lowest one known above it
    uint32_t level = 0;
    RemotePtr parent;   // the cached node with the pointer to `node`; null: the root word
    uint64_t hint = 0;  // LeafHint of `node`, if it is a leaf with a cached parent
    Key low;            // the low fence of `node` according to its parent

    static Step To(RootWord root) { return {root.pointer(), root.level(), RemotePtr(), 0, Key()}; }
    bool has_parent() const { return !parent.is_null(); }
  };

  // A leaf under a cached parent, or that the root word points to. Null: its parent is not cached.
  struct LeafSpot {
    RemotePtr leaf;
    uint64_t hint = 0;
  };

  // One of several neighbouring leaves.
  struct LeafRef {
    RemotePtr leaf;
    RemotePtr parent;
    uint64_t hint = 0;
    Key low;
  };

  // A node as its parent names it.
  struct NodeRef {
    RemotePtr node;
    Key low;
  };

  // A thread's access. Once half the cache is used, each lookup counts a use of the node it found,
  // in memory that other threads read only to evict. The count is the node's benefit: a use saves
  // one round trip, whatever the level.
  class Reader {
   public:
    explicit Reader(NodeCache& cache);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    RootWord root() const { return cache_.root(); }
    // Descends to `level`, or as far as nodes are cached. Returns nullopt if the root word is
    // unknown. `high`, unless null, gets the high fence of the step's node according to its parent.
    std::optional<Step> Find(const SearchGoal& goal, uint32_t level, HighFence* high = nullptr);
    // Whether a lookup counts as a use of the node that it finds.
    enum class Counts : uint8_t { kUse, kNothing };
    // The leaf of `key`.
    LeafSpot FindSpot(KeyView key, Counts counts = Counts::kUse);
    // The leaves of many keys, in the order of the keys, found by `find`, `batch` of them at a
    // time. One epoch guard for all. Requires: `batch` is 1 to kMaxGroup.
    void FindLeaves(std::span<const KeyView> keys, size_t batch, std::span<LeafSpot> spots,
                    PlaceFinder find = FindPlaces);
    // Appends up to `limit` neighbouring leaves whose parents are cached: first the leaf for `key`,
    // then those to its right. Returns their number, and sets `end` to where the last of them ends.
    size_t CollectRight(KeyView key, size_t limit, std::vector<LeafRef>& leaves, HighFence& end);
    // The same to the left, from the last leaf that starts below `bound`.
    size_t CollectLeft(const HighFence& bound, size_t limit, std::vector<LeafRef>& leaves);

    // Appends the nodes at `level`, below the cached node above it that covers `key`, that are not
    // cached. Returns how many children that node has, and sets `end` to where it ends; 0: it is
    // not cached.
    uint32_t FindMissing(KeyView key, uint32_t level, std::vector<NodeRef>& missing,
                         HighFence& end);
    // Changes the hint of `leaf`, which contains `key`.
    void PatchHint(KeyView key, RemotePtr leaf, const HintPatch& patch);
    void ReplaceHint(KeyView key, RemotePtr leaf, uint64_t hint) {
      PatchHint(key, leaf, {~uint64_t{0}, hint});
    }
    // The same for neighbouring leaves: cheaper than one by one. Requires: as many hints as leaves.
    void ReplaceHints(std::span<const InternalNode::Child> leaves, std::span<const uint64_t> hints);

   protected:
    NodeCache& cache_;

   private:
    friend class NodeCache;
    void CountUse(const SeparatorNode* node);

    EpochReader epoch_;
    // Since the clock hand last passed; nodes with one slot share a count.
    std::unique_ptr<std::atomic<uint8_t>[]> uses_;
  };

  // Holds at most `max_bytes` of nodes. A larger node is not cached.
  explicit NodeCache(uint64_t max_bytes);
  ~NodeCache();
  NodeCache(const NodeCache&) = delete;
  NodeCache& operator=(const NodeCache&) = delete;

  RootWord root() const { return RootWord::FromWord(root_.load(std::memory_order_acquire)); }

  // Of an operation that begins now.
  static constexpr uint64_t kNow = ~uint64_t{0};

  // Functions that insert nodes return how many other nodes they evicted. They, and SetRoot, do
  // nothing for an operation that began when flushes() was less than now, as `began` says: its
  // pointers may be of the past.

  void SetRoot(RootWord root, uint64_t began = kNow);
  // Which nodes enter. kDrawn: of nodes that a lookup missed, and that fit only after an eviction,
  // some by a draw.
  enum class Admission : uint8_t { kDrawn, kAll };
  // Caches `node`, read or written whole at `pointer`, unless a newer version is cached. Children
  // that stay keep their hints. Of the nodes that a split makes of one, the last comes first: each
  // finds its hints in the whole node.
  uint32_t Insert(RemotePtr pointer, const InternalNode& node, uint64_t began = kNow,
                  Admission admission = Admission::kAll);
  // The same. If only the version is new, sets the version: a split on this compute server adds its
  // children to the cache before it writes the parent. `added`: the children that it wrote, under
  // the node's lock, as the only difference to the version before. If the cached node has these,
  // children of other splits stay cached, whose downlinks are still to come.
  uint32_t Insert(RemotePtr pointer, const InternalView& node, uint64_t began = kNow,
                  std::span<const InternalNode::Child> added = {});
  // Adds `leaves`, which this compute server has split off one leaf, to the cached node `parent`
  // before the remote one is updated. Meanwhile this compute server's operations need not go
  // through the left neighbour. Adds all of them or, if the cached node has others in their range,
  // none.
  // Requires: at least one; their separators ascend.
  uint32_t InsertChildren(RemotePtr parent, std::span<const InternalNode::Child> leaves,
                          uint64_t began = kNow);
  // Forgets the node at `level` whose range contains `key`, except for its hints, if it is the one
  // at `pointer`.
  void Forget(uint32_t level, KeyView key, RemotePtr pointer);
  // Forgets all nodes, their hints, and the root word, and takes nothing more of operations that
  // have begun.
  void Clear();
  // How often Clear has been called.
  const std::atomic<uint64_t>& flushes() const { return flushes_; }
  // Of all nodes that lookups can find, the index included.
  uint64_t bytes() const { return memory_.bytes(); }
  // Memory in use: these nodes, and what the bound does not count.
  uint64_t used_bytes() const {
    const std::lock_guard lock(mutex_);
    return memory_.arena().used_bytes();
  }
  // What the bound leaves.
  uint64_t room() const { return max_bytes_ - bytes(); }

 private:
  // Levels that are cached: 1 to kLevels. A tree of 50 M records has 4.
  static constexpr uint32_t kLevels = 15;
  static constexpr uint32_t kMaxBenefit = 8;
  static constexpr uint64_t kMissesPerAdmission = 8;

  SeparatorIndex& index(uint32_t level) const { return *indexes_[level - 1]; }
  // The leaf of every key if the tree is one leaf; null if the root word is unknown.
  static LeafSpot SpotOf(RootWord root) {
    return root.word() == 0 ? LeafSpot{} : LeafSpot{root.pointer(), LeafHint::kUnknown};
  }
  // Forgotten nodes stand in the index as gaps.
  static uint64_t WordOf(CachedNode node) { return reinterpret_cast<uint64_t>(node.node()); }
  static uint64_t ForgottenWordOf(CachedNode node) { return WordOf(node) | SeparatorNode::kGap; }
  // The node of a word, forgotten or not; null for a plain gap.
  static CachedNode NodeOf(uint64_t word);
  // The node at `level` that covers `key`, not forgotten, or null.
  CachedNode NodeCovering(uint32_t level, KeyView key) const;
  // The node at `level` that covers the goal, not forgotten, or null; and the child to follow.
  CachedNode Lookup(uint32_t level, const SearchGoal& goal, uint32_t& child) const;
  static LeafRef RefOf(CachedNode node, uint32_t child);

  // Under mutex_:
  uint32_t Admit(RemotePtr pointer, const InternalNode& node);
  // Whether a missed node is not admitted: it fits only after an eviction, and was not drawn.
  bool IsRefused(const InternalNode& node);
  void KeepHints(CachedNode fresh) const;
  // Lets `fresh` enter if it fits, and displaces what is in its range.
  uint32_t Put(CachedNode fresh);
  // Returns false if the index would outgrow the bound; then at most a gap at its end was added.
  bool TryEnter(CachedNode fresh);
  // Takes the node out of the index, the ring and the count.
  void Remove(CachedNode node);
  // Makes gaps of the entries that refer to `node`.
  void ClearEntries(CachedNode node);
  uint32_t TakeSlot();
  void Link(CachedNode node);
  void Unlink(CachedNode node);
  // Evicts the node of least benefit, never `kept`. Returns false if there is none.
  bool EvictOne(CachedNode kept);
  uint32_t TakeUses(CachedNode node);
  CachedNode RootNode() const;

  const uint64_t max_bytes_;
  const uint32_t last_slot_;  // of use counts, from 1 on: slot 0 is the gap's
  std::atomic<uint64_t> root_{0};
  std::atomic<bool> counts_uses_{false};

  mutable std::mutex mutex_;
  NodeMemory memory_;
  std::array<std::unique_ptr<SeparatorIndex>, kLevels> indexes_;
  std::vector<Reader*> readers_;
  std::vector<uint32_t> free_slots_;  // of use counts
  SeparatorList scratch_;
  uint64_t draws_ = 0;
  std::atomic<uint64_t> flushes_ = 0;
  // All nodes form a ring that a clock hand walks. A new node enters just before the hand, and so
  // has a whole round to be used. Where the hand passes, a node's benefit is halved and its uses
  // since are added; a node without benefit goes. The root is never evicted for another node.
  SeparatorNode* hand_ = nullptr;
  size_t count_ = 0;
};

// SessionCache: one session's reader of the shared cache of internal nodes, with the session's
// counters.
//
// Thread-safety: none; one for each session.
// Cost: that of NodeCache.
class SessionCache : public NodeCache::Reader {
 public:
  using Step = NodeCache::Step;

  SessionCache(NodeCache& cache, LiveCacheCounts& counts, LeafSketch& leaves)
      : Reader(cache), counts_(counts), leaves_(leaves) {}

  LiveCacheCounts& counts() { return counts_; }

  // The step below `from` that cached nodes allow; else `from`.
  Step FindFrom(const Step& from, const SearchGoal& goal, uint32_t level) {
    const std::optional<Step> step = Find(goal, level);
    return step && step->has_parent() && step->level < from.level ? *step : from;
  }

  // The step to the leaf for `key`; nullopt if the leaf's parent is not cached. `high` as for Find.
  std::optional<Step> FindLeaf(KeyView key, HighFence* high = nullptr) {
    std::optional<Step> step = TryFindLeaf(key, high);
    if (!step) ++counts_.misses;
    return step;
  }
  // The same, but a miss is not counted: FindLeaf counts it when the key is looked up again.
  std::optional<Step> TryFindLeaf(KeyView key, HighFence* high = nullptr) {
    std::optional<Step> step = Find(SearchGoal::Covering(key), 0, high);
    if (!step || step->level != 0) return std::nullopt;
    ++counts_.hits;
    leaves_.Use(step->node, key);
    return step;
  }

  // The leaf alone, not counted: FindLeaf counts the key if it is looked up again.
  NodeCache::LeafSpot FindSpot(KeyView key) {
    const NodeCache::LeafSpot spot = Reader::FindSpot(key);
    leaves_.Use(spot.leaf, key);
    return spot;
  }
  // Whether the key's leaf is cached. That is no use of it.
  bool HasLeaf(KeyView key) { return !Reader::FindSpot(key, Counts::kNothing).leaf.is_null(); }
  // Counts keys that FindSpot or FindLeaves found.
  void CountHits(uint64_t hits) { counts_.hits += hits; }

  // The leaves for many keys, not counted; null where it is not cached.
  void FindLeaves(std::span<const KeyView> keys, std::span<NodeCache::LeafSpot> spots) {
    FindLeavesTuned(keys, spots);
    leaves_.UseMany(
        keys.size(), [spots](size_t i) { return spots[i].leaf; },
        [keys](size_t i) { return keys[i]; });
  }

  // As in NodeCache, of an operation that began when the cache had been emptied so often.
  void SetRoot(uint64_t flushes, RootWord root) { cache_.SetRoot(root, flushes); }
  void Insert(uint64_t flushes, RemotePtr pointer, const InternalNode& node,
              NodeCache::Admission admission = NodeCache::Admission::kAll) {
    counts_.evictions += cache_.Insert(pointer, node, flushes, admission);
  }
  void Insert(uint64_t flushes, RemotePtr pointer, const InternalView& node,
              std::span<const InternalNode::Child> added = {}) {
    counts_.evictions += cache_.Insert(pointer, node, flushes, added);
  }
  void InsertChildren(uint64_t flushes, RemotePtr parent,
                      std::span<const InternalNode::Child> leaves) {
    counts_.evictions += cache_.InsertChildren(parent, leaves, flushes);
  }
  void Forget(uint32_t level, KeyView key, RemotePtr pointer) {
    cache_.Forget(level, key, pointer);
  }
  // The path was wrong: the node with the pointer to `path.node` is read again next time. Without a
  // cached parent that is the root word.
  void ForgetPath(const Step& path) {
    if (path.has_parent()) cache_.Forget(path.level + 1, path.low, path.parent);
    cache_.Forget(path.level, path.low, path.node);
  }

  // Corrects the hint of the leaf at `spot`, which contains `key`, by the units read. `known`: a
  // bit set of unit numbers; unit_at(number) is a GroupView.
  template <typename UnitAt>
  void LearnHint(KeyView key, const NodeCache::LeafSpot& spot, const LeafGeometry& geometry,
                 uint32_t known, UnitAt&& unit_at) {
    const HintPatch patch = PatchOf(geometry, known, unit_at);
    if (patch.AppliedTo(spot.hint) == spot.hint) return;
    PatchHint(key, spot.leaf, patch);
  }

 private:
  void FindLeavesTuned(std::span<const KeyView> keys, std::span<NodeCache::LeafSpot> spots) {
    const BatchTuner::Choice choice = tuner_.Next(keys.size());
    if (!choice.is_trial) return Reader::FindLeaves(keys, choice.size, spots);
    const BatchTuner::Clock::time_point start = BatchTuner::Clock::now();
    Reader::FindLeaves(keys, choice.size, spots);
    tuner_.Report(choice, BatchTuner::Clock::now() - start);
  }

  BatchTuner tuner_;
  LiveCacheCounts& counts_;
  LeafSketch& leaves_;
};

}  // namespace gossamer
