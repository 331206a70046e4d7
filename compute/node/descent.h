// Descent: from the root word down to a node, through the cache and by READs of whole internal nodes.
//
// A cached path may be out of date: the fences of the node that it leads to tell. Then the node has split, and what is
// sought is right of it: one hop to the sibling is cheap. But the root word may be stale by any number of splits (rule R7),
// so that a path without a cached parent may be many hops too far left: such a path is not hopped from, but found afresh.
//
// Thread-safety: none; one for each session. Cost: 1 RT for each node that is not cached.
#pragma once

#include <cstdint>
#include <optional>

#include "common/status.h"
#include "common/task.h"
#include "compute/cache/session_cache.h"
#include "compute/node/missing_downlinks.h"
#include "compute/node/node_reader.h"
#include "compute/session/op.h"

namespace gossamer {

class Descent {
 public:
  using Step = NodeCache::Step;
  // kNothing: from the root word down by READs alone, where the cache is far behind the tree.
  enum class Trust : uint8_t { kCache, kNothing };

  Descent(NodeReader& nodes, SessionCache& cache, const MissingDownlinks& missing)
      : nodes_(nodes), cache_(cache), missing_(missing) {}

  // Returns the step to the node at `level` for `goal`: its range, as its parent states it, has the goal (it may have
  // shrunk since). If the tree is lower than `level`, returns the step to the root, with its level. Errors: as NodeReader;
  // Corruption if an internal node stays unreadable.
  Task<Result<Step>> To(Op& op, SearchGoal goal, uint32_t level, Trust trust = Trust::kCache);

 private:
  NodeReader& nodes_;
  SessionCache& cache_;
  const MissingDownlinks& missing_;
};

}  // namespace gossamer
