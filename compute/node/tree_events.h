// TreeEvents: what an operation meets on its way that concerns others, and is acted on elsewhere.
//
// Tree implements it, and passes it to its parts: so the lower ones need not know the upper ones.
#pragma once

#include <cstdint>

#include "common/status.h"
#include "common/task.h"
#include "compute/session/op.h"
#include "proto/key.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class TreeEvents {
 public:
  // A descent has READ a node because it is not cached.
  virtual void OnCacheMiss() = 0;
  // A hop led from `left`, at `level`, to its sibling: the parent may lack its downlink (rule W6).
  // `left` starts at `low`.
  virtual void OnHop(RemotePtr left, uint32_t level, const Key& low) = 0;
  // The leaf that covers `key` has lost entries, and may be worth a merge.
  virtual void OnSparseLeaf(const Key& key) = 0;
  // An operation came over the leaf that covers `left` to a frozen one, whose merge is not
  // finished. It waits until the merge is finished or undone. As Merger::Absorb.
  virtual Task<Status> FinishMerge(Op& op, const Key& left) = 0;

 protected:
  ~TreeEvents() = default;
};

}  // namespace gossamer
