// Repairs: makes downlinks that hops found missing, in the background and one at a time (rule W6).
//
// A repair that fails leaves the tree as it was; the next hop tries again.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/shape/parent_link.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

class Repairs {
 public:
  Repairs(TreeContext& context, ParentLinker& parents) : context_(context), parents_(parents) {}

  // Begins to make the downlink to the sibling of `left`, unless a repair runs. `left`, at `level`,
  // starts at `low`.
  void Start(RemotePtr left, uint32_t level, const Key& low);
  // Number of repairs that run.
  size_t running() const { return running_; }

 private:
  Task<void> Run(RemotePtr left, uint32_t level, Key low);
  // Reads the node whole (rule R3: a downlink is kept), then its parent.
  // Cost: 2 RT if there is nothing to do.
  Task<Status> Repair(Op& op, RemotePtr left, uint32_t level, const Key& low);

  TreeContext& context_;
  ParentLinker& parents_;
  size_t running_ = 0;
};

}  // namespace gossamer
