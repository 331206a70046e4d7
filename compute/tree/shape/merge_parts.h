// MergeParts: the three nodes of a merge, under their locks.
//
// The locks are only tried (rule W5). Two nodes may have one lock, which then guards both and is
// released with the last of them.
//
// Thread-safety: none; it belongs to its operation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "common/task.h"
#include "compute/lock/remote_lock.h"
#include "compute/tree/shape/node_union.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_job.h"

namespace gossamer {

class MergeParts {
 public:
  enum Role : size_t { kParent, kLeft, kRight, kRoles };

  MergeParts(TreeContext& context, Op& op)
      : context_(context),
        op_(op),
        parts_{Part(context.locks, op), Part(context.locks, op), Part(context.locks, op)} {}

  // Tries the locks of the nodes, and READs these behind them. Returns whether all are held: then
  // the images are those of the nodes. If not, or after an error, some may be held.
  // Cost: 1 RT.
  Task<Result<bool>> TryLocks(const Neighbours& nodes);
  std::span<std::byte> image(Role role) {
    return {parts_[role].buffers.data() + LockedBuffers::kImage, node_bytes()};
  }
  // The WRITEs, in their order: the parent and the frozen right node from their images, then the
  // left one from `merged`. Each is acknowledged before the next one is posted. Ends the locks.
  // Errors: as of RemoteLock::Commit. Some of the locks may be held then.
  // Cost: 3 RT.
  Task<Status> Commit(const Neighbours& nodes, const NodeUnion& both, const InternalNode& parent,
                      LocalAddress merged);
  // Releases what is held.
  Task<void> ReleaseAll();

 private:
  struct Part {
    Part(RemoteLocks& locks, Op& op) : own(locks, op) {}

    // The lock that guards it.
    RemoteLock& lock() { return same == nullptr ? own : same->own; }

    RemoteLock own;
    Part* same = nullptr;  // an earlier part of which the lock is the same
    BufferLease buffers;   // laid out as LockedBuffers
  };

  // Takes the turn at each lock. Returns whether it has all of them.
  bool TryTakeTurns();
  uint32_t node_bytes() const { return context_.store.parameters.node_bytes; }

  TreeContext& context_;
  Op& op_;
  std::array<Part, kRoles> parts_;
};

}  // namespace gossamer
