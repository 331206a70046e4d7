// FillPlan: which internal nodes a compute server should READ before operations ask for them.
//
// The cache of a new compute server is empty. Operations would fill it one node for each miss, at
// the cost of a round trip each. Instead, once misses repeat, a *pass* goes through the levels of
// the tree from the top down, and in each from left to right: the nodes that are missing below one
// parent are READ together. Sessions work on a pass one parent at a time, each time that one of
// them misses again. So a pass costs nothing when nobody misses, and no node is READ twice but by
// chance. Only one session at a time looks for nodes; others do not wait for it.
//
// A pass stops at a level whose missing nodes would not fit into the cache beside what it holds: no
// node is evicted for one that nobody has asked for. After a pass, as many misses as it has looked
// at nodes must come before the next one.
//
// Thread-safety: thread-safe.
// Cost: a lookup for each child of a parent; at the begin of a level one for each node of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "compute/cache/node_cache.h"
#include "proto/key.h"

namespace gossamer {

class FillPlan {
 public:
  // Misses before the first pass. A few lookups in a small tree start none.
  static constexpr uint64_t kMisses = 32;

  // Nodes to READ: all of one level.
  struct Nodes {
    uint32_t level = 0;
    std::vector<NodeCache::NodeRef> nodes;
  };

  // Some of a pass's work. The pass goes on to the next level only after all works have ended.
  // Null: there is nothing to do.
  struct EndWork {
    void operator()(FillPlan* plan) const { plan->works_.fetch_sub(1, std::memory_order_release); }
  };
  using Work = std::unique_ptr<FillPlan, EndWork>;

  FillPlan(NodeCache& cache, uint32_t node_bytes) : cache_(cache), node_bytes_(node_bytes) {}

  // An operation had to READ a node that is not cached. Returns whether nodes should be READ ahead.
  bool NoteMiss() {
    const uint64_t misses = misses_.fetch_add(1, std::memory_order_relaxed) + 1;
    return misses >= needed_.load(std::memory_order_relaxed);
  }
  // Sets `next` to the missing nodes below the next parent. The caller holds the work until they
  // are in the cache. Returns none if there is nothing to do: the pass has ended, others still READ
  // nodes of the level above, or another session is looking for nodes.
  [[nodiscard]] Work Next(NodeCache::Reader& reader, Nodes& next);
  // Whether there is room for one more node. Nodes that would evict others should not enter.
  bool HasRoom() const { return cache_.room() >= BytesOf(1); }

 private:
  // About what `nodes` take in the cache, at most.
  uint64_t BytesOf(uint64_t nodes) const { return nodes * node_bytes_ * 3 / 2; }
  // Under mutex_:
  // Whether all nodes of the level are known by their parents, and fit.
  bool MayFillLevel(NodeCache::Reader& reader);
  void End();

  NodeCache& cache_;
  const uint32_t node_bytes_;
  std::atomic<uint64_t> misses_{0};
  std::atomic<uint64_t> needed_{kMisses};
  std::atomic<uint32_t> works_{0};  // that have not ended; begun under mutex_

  std::mutex mutex_;
  bool is_running_ = false;
  uint32_t level_ = 0;      // of the nodes to READ
  HighFence at_;            // the next parent of that level; infinite: none is left
  uint64_t looked_at_ = 0;  // nodes in this pass
  std::vector<NodeCache::NodeRef> scratch_;
};

}  // namespace gossamer
