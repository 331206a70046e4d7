// CacheFiller: READs internal nodes that a FillPlan names, in the background.
//
// A node is cached only if it decodes, and is of the level and starts at the low fence that its
// parent states. One that does not, or cannot be reached, is left to the operation that asks for
// it.
//
// Thread-safety: none; one for each session.
// Cost: beside the operations, whose counts do not change: CacheCounts::filled counts its READs.
#pragma once

#include <cstddef>

#include "common/task.h"
#include "compute/cache/fill_plan.h"
#include "compute/session/server_batches.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

class CacheFiller {
 public:
  explicit CacheFiller(TreeContext& context) : context_(context) {}

  // A descent has READ a node that is not cached.
  void NoteMiss();

 private:
  // READs the missing nodes below one parent. Cost: 1 RT.
  Task<void> FillSome();
  // Takes a node from what was READ.
  void Take(uint64_t flushes, uint32_t level, const NodeCache::NodeRef& ref,
            std::span<const std::byte> image);

  TreeContext& context_;
  bool is_running_ = false;
  FillPlan::Nodes next_;
  ServerBatches batches_;
};

}  // namespace gossamer
