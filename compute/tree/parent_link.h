// ParentLinker: adds downlinks to nodes that a split made reachable, splits internal nodes, and
// makes new roots.
//
// Correctness needs none of this (rule W6): until a downlink exists, the left neighbour's sibling
// pointer leads to the node.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/status.h"
#include "common/task.h"
#include "compute/lock/remote_lock.h"
#include "compute/node/unit_buffers.h"
#include "compute/tree/tree_context.h"
#include "proto/internal_node.h"

namespace gossamer {

// A new entry behind all but this fraction of the last node counts as part of an ascending load.
inline constexpr size_t kEdgeFraction = 8;

// A parent under its lock.
struct LockedParent {
  LockedParent(RemoteLocks& locks, Op& op) : lock(locks, op) {}

  RemoteLock lock;
  BufferLease buffers;  // laid out as LockedBuffers of two nodes: the parent and its child
  InternalNode node;
  // The child still exists, with the separator as low fence (rule W4).
  bool child_is_there = false;
  // The lock was tried, with all READs, along with the leaf's commit or before it.
  bool is_tried = false;
  // The lock was taken before any other operation could know the child.
  bool is_before_child = false;
};

class ParentLinker {
 public:
  explicit ParentLinker(TreeContext& context) : context_(context) {}

  // Adds the downlink {separator, child} at `level`, if it is missing. The lock of `parent` may
  // have been tried already.
  // Cost: 2 RT for each level that changes; 1 RT for the first one if its lock was taken already.
  Task<Status> Insert(Op& op, uint32_t level, Key separator, RemotePtr child, LockedParent parent);

  // For a caller that tries the parent's lock along with its own commit.
  Status AllocateBuffers(LockedParent& parent);
  Verb ReadParent(const LockedParent& parent) const;
  // The READs behind the parent's CAS: the parent and, on the same server, the child's low fence.
  // Returns their number.
  uint32_t AddReads(const LockedParent& parent, uint32_t level, RemotePtr child,
                    std::span<Verb, 2> reads) const;

 private:
  enum class Raised : uint8_t { kByUs, kByAnother };
  enum class Tried : uint8_t { kTried, kLookAgain };
  // The right half of a parent, if that was full.
  struct RightHalf {
    std::optional<InternalNode> node;
    RemotePtr pointer;
  };

  // Locks the parent of `child` at `level` and reads it.
  // Cost: 1 RT, 1 RT more for each hop, and 1 RT more if parent and child are on different servers.
  // 0 RT if the lock was taken before the child was known.
  Task<Status> Lock(Op& op, uint32_t level, const Key& separator, RemotePtr child,
                    LockedParent& parent);
  Task<Result<RemotePtr>> FindParent(Op& op, uint32_t level, const Key& separator,
                                     LockedParent& parent);
  Task<Result<Tried>> Try(Op& op, uint32_t level, RemotePtr child, LockedParent& parent);
  // Checks whether the child of the locked parent still exists.
  Task<Status> CheckChild(Op& op, uint32_t level, const Key& separator, RemotePtr child,
                          LockedParent& parent);
  Verb ReadChild(const LockedParent& parent, uint32_t level, RemotePtr child) const;
  bool ChildMatches(const LockedParent& parent, uint32_t level, const Key& separator,
                    RemotePtr child) const;
  // Moves the right half of the children to a new node. The new child is behind `index`. Ends the
  // lock on errors.
  Task<Status> Split(Op& op, LockedParent& parent, size_t index, RightHalf& right);
  // Writes the parent and its right half (rules W1, W2). Cost: 1 RT; 2 RT with the right half on
  // another server.
  Task<Status> Write(Op& op, LockedParent& parent, const RightHalf& right);

  // Makes a root above `old_root`: WRITE, acknowledged, then CAS of the root word (rule R7). Cost:
  // 2 RT.
  Task<Result<Raised>> RaiseRoot(Op& op, RootWord old_root, const Key& separator, RemotePtr child);
  // Returns the root word that the CAS found, or would have found; nullopt if that is unknown.
  Task<Result<std::optional<RootWord>>> SwapRoot(Op& op, RootWord old_root, RootWord new_root,
                                                 LocalAddress word_at);

  TreeContext& context_;
};

}  // namespace gossamer
