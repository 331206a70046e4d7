// Descent: finds a node from the root word down, through the cache and by READs of whole internal
// nodes.
//
// The fences of a node reveal that the cached path to it is stale: the node has split, and the goal
// is right of it. One hop to the sibling is cheap. But a root word may be stale by any number of
// splits (rule R7), and a path without a cached parent may end many hops too far left. Such a path
// is found afresh instead.
//
// Thread-safety: none; one for each session.
// Cost: 1 RT for each node that is not cached.
#pragma once

#include <cstdint>
#include <optional>

#include "common/status.h"
#include "common/task.h"
#include "compute/cache/node_cache.h"
#include "compute/node/node_reader.h"
#include "compute/node/tree_events.h"
#include "compute/session/op.h"

namespace gossamer {

class Descent {
 public:
  using Step = NodeCache::Step;
  // kNothing: from the root word down by READs alone, because the cache is far behind the tree.
  enum class Trust : uint8_t { kCache, kNothing };
  // Of nodes that are READ. kAll: for a caller that uses many children of each.
  using Admission = NodeCache::Admission;

  Descent(NodeReader& nodes, SessionCache& cache, TreeEvents& events)
      : nodes_(nodes), cache_(cache), events_(events) {}

  // Returns the step to the node at `level` whose range, according to its parent, contains `goal`.
  // (The range may have shrunk since.) If the tree is lower than `level`, returns the step to the
  // root, with its level.
  // Errors: as NodeReader; Corruption if an internal node stays unreadable.
  Task<Result<Step>> To(Op& op, SearchGoal goal, uint32_t level, Trust trust = Trust::kCache,
                        Admission admission = Admission::kDrawn);

 private:
  NodeReader& nodes_;
  SessionCache& cache_;
  TreeEvents& events_;
};

}  // namespace gossamer
