// UnseenNodes: nodes to which nothing leads yet, and the WRITEs that fill them.
//
// They may be written in any order, as often as necessary, and may be left half written: no client
// knows them. They are acknowledged before the WRITE that makes them reachable is posted, or
// precede it in one batch (rule W1).
//
// Thread-safety: none. Cost: an allocation and a buffer for each kNodesPerBatch nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "common/fabric/work_request.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

class UnseenNodes {
 public:
  // The least that every fabric takes in one batch.
  static constexpr uint32_t kNodesPerBatch = 64;

  // About `expected` nodes will be added.
  UnseenNodes(TreeContext& context, size_t expected) : context_(context), expected_(expected) {}

  // Adds the WRITE of `node`. Returns where its bytes go.
  // Errors: NoResources: no registered memory.
  Result<std::span<std::byte>> Add(RemotePtr node);

  // Adds the WRITEs to `batch`, which has room for them.
  void AddWrites(Batch& batch) const;
  // Appends the batches that have not been written. The caller executes them along with others.
  void AppendUnwritten(std::vector<Batch*>& batches);
  bool are_written() const;
  // Executes what has not been written, again after losses.
  // Errors: NodeUnreachable, with the loss noted in `op`. op.needs_other_memory is set then.
  // Cost: 1 RT.
  Task<Status> WriteRest(Op& op);

 private:
  struct Run {
    BufferLease images;
    InlineBatch<kNodesPerBatch> batch;
  };

  TreeContext& context_;
  const size_t expected_;
  std::list<Run> runs_;
};

}  // namespace gossamer
