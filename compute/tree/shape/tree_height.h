// TreeHeight: makes a new root above the old one, and replaces a root that has one child by that
// child.
//
// The root word changes by CAS, and only under a lock of its own: that of the superblock, on the
// root word's server. So it stays the same while one client looks at what it is about to link.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>
#include <optional>

#include "common/status.h"
#include "common/task.h"
#include "compute/lock/remote_lock.h"
#include "compute/tree/tree_context.h"
#include "proto/internal_node.h"

namespace gossamer {

class TreeHeight {
 public:
  explicit TreeHeight(TreeContext& context) : context_(context) {}

  enum class Raised : uint8_t {
    kByUs,
    kByAnother,  // there is a root at that level
    kNotThere,   // the child was merged away, or is being merged: it gets no downlink
  };
  // Makes a root at `level`, with the old root and `child` as children.
  // Requires (unchecked): `op` holds no lock and no turn.
  // Errors: as of a write. Contended for a repair if the lock is taken.
  // Cost: 4 RT: lock, WRITE of the node and READ of the child, CAS of the root word, unlock.
  Task<Result<Raised>> Raise(Op& op, uint32_t level, const InternalNode::Child& child);

  // If `root` is the root, and has one child and no sibling, makes that child the root. Goes on
  // where another client has frozen `root` and died. Returns whether the root has changed.
  // Requires: as Raise.
  // Errors: as Raise. Contended if the lock of `root` is taken.
  // Cost: 5 RT.
  Task<Result<bool>> Lower(Op& op, RootWord root);

 private:
  // Takes the lock of the root word, and reads the word behind it.
  Task<Result<RootWord>> Lock(Op& op, RemoteLock& lock, LocalAddress words);
  // Writes the new root, and looks whether its second child is there. 1 RT.
  Task<Result<bool>> WriteAndCheck(Op& op, RemotePtr pointer, const InternalNode& node,
                                   LocalAddress buffers);
  // Freezes `root`, unless it is frozen, under `word_lock`. Returns its only child; nullopt if it
  // has several or a sibling. 2 RT.
  Task<Result<std::optional<RemotePtr>>> Freeze(Op& op, RemoteLock& word_lock, RootWord root);
  // Changes the root word. nullopt: that is unknown.
  Task<Result<std::optional<bool>>> Swap(Op& op, RemoteLock& lock, RootWord from, RootWord to,
                                         LocalAddress word_at);

  TreeContext& context_;
};

}  // namespace gossamer
