// ParentLinker: adds downlinks to nodes that a split made reachable, and splits internal nodes.
//
// Correctness needs none of this (rule W6): until a downlink exists, the left neighbour's sibling
// pointer leads to the node.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "common/fabric/verb.h"
#include "common/fabric/work_request.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/lock/remote_lock.h"
#include "compute/tree/shape/tree_height.h"
#include "compute/tree/tree_context.h"
#include "proto/internal_node.h"

namespace gossamer {

// UnseenNodes: nodes to which nothing leads yet, and the WRITEs that fill them.
//
// They may be written in any order, as often as necessary, and may be left half written: no client
// knows them. They are acknowledged before the WRITE that makes them reachable is posted, or
// precede it in one batch (rule W1).
//
// Thread-safety: none. Cost: an allocation and a buffer for each kNodesPerBatch nodes.
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

// ---- What is read of a child before a parent gets a downlink to it (rule W4).
//
// `level` is the parent's. The child exists if what was read matches, and nobody merges it: its
// lock word says so.

// Reads the child's low fence: a leaf's trailer, or the whole of an internal node.
Verb ReadChild(const TreeContext& context, uint32_t level, RemotePtr child, LocalAddress into);
// Whether the bytes that ReadChild brought are the child, not frozen, and with the separator as low
// fence.
bool ChildMatches(const TreeContext& context, const std::byte* image, uint32_t level,
                  const Key& separator, RemotePtr child);
// Reads the word of the child's lock. Requires: the child's server is known.
Verb ReadLockOf(const TreeContext& context, RemotePtr child, LocalAddress into);
// Whether the word that ReadLockOf brought says that its holder merges the child.
bool IsBeingMerged(LocalAddress word);

// ---- Downlinks

// Separators and the nodes that start there.
using Downlinks = std::vector<InternalNode::Child>;

// A parent under its lock.
struct LockedParent {
  LockedParent(RemoteLocks& locks, Op& op) : lock(locks, op) {}

  RemoteLock lock;
  BufferLease buffers;  // laid out as LockedBuffers of two nodes: the parent and its child
  std::optional<InternalView> view;  // of the parent in `buffers`, once its lock is held
  std::optional<InternalNode> node;  // with the new children, unless the image was changed in place
  // The lock was tried, with all READs, along with the leaf's commit or before it.
  bool is_tried = false;
  // The lock was taken before any other operation could know the child.
  bool is_before_child = false;
  // The word of the child's lock was read behind this one, before the child.
  bool has_child_word = false;
};

class ParentLinker {
 public:
  explicit ParentLinker(TreeContext& context) : context_(context), height_(context) {}

  // Adds the downlinks to `children` at `level`, where they are missing. The lock of `parent`,
  // which is that of the first child, may have been tried already.
  // Requires: at least one child; their separators ascend.
  // Cost: 2 RT for each node that changes, at one level after the other; 1 RT for the first one if
  // its lock was taken already. 1 RT more for a node that gets several children, unless its lock
  // was taken before they were known, and 1 RT more for one that is split into more than two. A new
  // root: as TreeHeight::Raise.
  Task<Status> Insert(Op& op, uint32_t level, Downlinks children, LockedParent parent);

  // If the right sibling of the node at `level` that covers `key` is frozen, has the node take over
  // its children. Only tries the node's lock. Returns the frozen node, to which nothing leads any
  // more; nullopt if there is none, or the lock is taken.
  // Requires: level > 0.
  // Errors: as of a write.
  // Cost: 3 RT, and those of a split if the children do not fit.
  Task<Result<std::optional<RemotePtr>>> Absorb(Op& op, uint32_t level, const Key& key);

  // Prepares `parent`, so that its lock can be tried along with the commit of the child at `path`,
  // whose lock is at `place`. Returns false if that is not possible: the parent is not known, or
  // its turn is taken (rule W5).
  Task<bool> TryPrepare(Op& op, const NodeCache::Step& path, const LockPlace& place,
                        LockedParent& parent);

  // For a caller that tries the parent's lock along with its own commit.
  Verb ReadParent(const LockedParent& parent) const;
  // The reads behind the parent's CAS: the parent and, of a child on the same server, the word of
  // its lock, if that is wanted, and its low fence. Returns their number. A split that makes the
  // child does not want the word: it knew the parent before, so no split has moved the child there.
  uint32_t AddReads(LockedParent& parent, uint32_t level, RemotePtr child, bool wants_child_word,
                    std::span<Verb, 3> reads) const;

  TreeHeight& height() { return height_; }

 private:
  // A node to the right of a parent, which was full.
  struct RightNode {
    InternalNode node;
    RemotePtr pointer;
    Allocated<RemotePtr> memory;
  };
  using RightNodes = std::vector<RightNode>;

  // The search for the parent of a child so far.
  struct Search {
    uint32_t level;  // of the parent
    const InternalNode::Child& child;
    RemotePtr sibling{};  // the next node to lock; null: it is looked up
    Key left_low{};       // where the node starts whose sibling that is
    // The node that failed its checks last, and how often in a row.
    RemotePtr failed{};
    uint32_t failures = 0;

    // Whether the node is of the level, and the child's separator is in it or right of it.
    bool StartsBefore(const std::optional<InternalView>& view) const {
      return view && !view->frozen() && view->level() == level &&
             view->low() <= child.separator.view();
    }
  };

  // Locks the parent of `child` at `level` and reads it. Returns whether the child still exists,
  // with the separator as low fence (rule W4).
  // Errors: also Contended, if the tree is lower than `level`.
  // Cost: 1 RT, 1 RT more for each hop, and 1 RT more if parent and child are on different servers.
  // 0 RT if the lock was taken before the child was known.
  Task<Result<bool>> Lock(Op& op, uint32_t level, const InternalNode::Child& child,
                          LockedParent& parent);
  // Finds the next node of the search, and tries its lock. Returns false if the parent must be
  // looked for again.
  Task<Result<bool>> TryNext(Op& op, Search& search, LockedParent& parent);
  // The locked node is not the parent: releases it, and moves the search on.
  Task<Status> LeaveStaleNode(Op& op, Search& search, LockedParent& parent);
  Status AllocateBuffers(LockedParent& parent);
  // Adds the downlinks from `children` on that lie in the locked parent's range, and drops them
  // from `children`. Appends to `above` what the level above has to learn. Always ends the lock.
  Task<Status> InsertInto(Op& op, uint32_t level, std::span<const InternalNode::Child>& children,
                          LockedParent& parent, Downlinks& above);
  // Writes the locked parent, whose `node` has changed, and splits it if it is too large. The last
  // new child is behind `index`. Appends to `above` as InsertInto. Ends the lock.
  Task<Status> Rewrite(Op& op, LockedParent& parent, size_t index, Downlinks& above);
  // Drops children that do not exist from `children`. `checked` was checked with the lock. Ends the
  // lock on errors.
  Task<Status> CheckOthers(Op& op, uint32_t level, RemotePtr checked, Downlinks& children,
                           LockedParent& parent);
  // Whether the child of the locked parent still exists.
  Task<Result<bool>> CheckChild(Op& op, uint32_t level, const InternalNode::Child& child,
                                LockedParent& parent);
  // Where the word of the child's lock, and the child, are read to.
  LocalAddress ChildWord(const LockedParent& parent) const {
    return parent.buffers.address(LockedBuffers::kChildWord);
  }
  LocalAddress ChildImage(const LockedParent& parent) const {
    return parent.buffers.address(LockedBuffers::kImage + context_.store.parameters.node_bytes);
  }
  // Moves the children that are too many to new nodes. The last new child is behind `index`. Ends
  // the lock on errors.
  Task<Status> Split(Op& op, LockedParent& parent, size_t index, RightNodes& right);
  // Writes the parent and the nodes right of it (rules W1, W2). Cost: 1 RT; 2 RT with several such
  // nodes, or one on another server.
  Task<Status> Write(Op& op, LockedParent& parent, const RightNodes& right);

  TreeContext& context_;
  TreeHeight height_;
};

}  // namespace gossamer
