// SessionCache: one session's reader of the shared cache of internal nodes, with the session's
// counters.
//
// Thread-safety: none; one for each session.
// Cost: that of NodeCache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compute/cache/batch_tuner.h"
#include "compute/cache/node_cache.h"
#include "compute/cache/search_goal.h"
#include "compute/counters/leaf_sketch.h"
#include "compute/counters/live_counters.h"
#include "proto/internal_node.h"

namespace gossamer {

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
