// Merger: merges nodes that have few entries with a neighbour, and gives the memory of the right
// one of both free. Has a root with one child give way to it.
//
// The parent loses its downlink to the right node; the right node is frozen; the left node takes
// its entries over. Each step is one WRITE under the node's lock. All three locks are only tried
// (rule W5), and are held before the first WRITE: only a death or a loss leaves a merge unfinished.
// Then a frozen node stays behind its left neighbour, and readers go on there. A write to a frozen
// leaf finishes the merge first, or undoes it.
//
// Thread-safety: none; one for each session.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/status.h"
#include "common/task.h"
#include "compute/node/merge_queue.h"
#include "compute/tree/shape/node_union.h"
#include "compute/tree/shape/parent_link.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_job.h"

namespace gossamer {

class Merger {
 public:
  Merger(TreeContext& context, LeafLocker& leaves, ParentLinker& parents)
      : context_(context), leaves_(leaves), parents_(parents) {}

  // Does what `request` asks for, if it is possible now. Counted as an operation of class kMerge if
  // nodes were merged.
  // Cost: 2 RT to look; 4 RT for a merge; as TreeHeight::Lower for a root.
  Task<void> Run(MergeQueue::Request request);

  // Notes the leaf that covers `key` for a merge. Helps with merges if too many are noted.
  void NoteSparse(const Key& key);
  // Number of merges that could not be done, since the last one that was.
  uint32_t failures() const { return failures_; }
  // Number of merges that this session runs in the background, because too many were noted.
  size_t helping() const { return helping_; }

  // If the right sibling of the leaf that covers `key` is frozen, has the leaf take over its
  // entries or, if they do not fit, makes it live again. Waits for the leaf's lock. Requires: `op`
  // holds none.
  // Errors: as of a write, but not Exhausted.
  // Cost: 3 RT; 5 or 6 RT where the entries do not fit.
  Task<Status> Absorb(Op& op, const Key& key);

 private:
  // Merges the node that `request` names, or has the root give way. Returns whether something was
  // done. nullopt: nothing is to be done.
  Task<Result<std::optional<bool>>> Improve(Op& op, const MergeQueue::Request& request);
  // Has the root give way to its child, if it is at `level` and has no other child.
  Task<Result<std::optional<bool>>> LowerRoot(Op& op, uint32_t level, RootWord root);
  // Notes the request again, unless it was tried too often.
  Task<void> TryLater(MergeQueue::Request request);
  // Does some of what is noted.
  Task<void> Help();
  // Notes what a merge has made worth a look.
  void NoteNext(const Neighbours& merged) const;
  Task<Status> Finish(Op& op, uint32_t level, const Key& key);
  // Looks for a neighbour that the node which covers `key` can be merged with.
  Task<Result<std::optional<Neighbours>>> Look(Op& op, uint32_t level, const Key& key);
  // Returns whether the nodes were merged.
  Task<Result<bool>> Merge(Op& op, const Neighbours& nodes);
  // Drops the downlink to the right node from the parent's image. Returns the parent; nullopt if it
  // is not that of both.
  static std::optional<InternalNode> DropDownlink(const Neighbours& nodes,
                                                  std::span<std::byte> parent);
  // The rest of Absorb. Ends the lock.
  Task<Status> TakeOver(Op& op, LockedLeaf& locked);
  // Undoes the merge of which the left leaf is locked and the right one frozen: makes that one
  // live. Does nothing if its lock is taken: the caller waits for that, and comes back. Ends the
  // left leaf's lock. `buffers`: LockedBuffers, with the right leaf.
  Task<Status> Undo(Op& op, LockedLeaf& left, const Neighbours& nodes, BufferLease& buffers);

  uint32_t node_bytes() const { return context_.store.parameters.node_bytes; }

  TreeContext& context_;
  LeafLocker& leaves_;
  ParentLinker& parents_;
  size_t helping_ = 0;
  uint32_t failures_ = 0;
};

}  // namespace gossamer
