// LossRepairer: mends a tree of which memory servers are gone for good, so that all keys can be
// read and written again.
//
// What a lost leaf had is lost, and its range becomes empty: a new, empty leaf takes its place. A
// lost internal node is replaced by one that leads to the nodes below as far as their left
// neighbours name them. Entries whose block is lost are removed. What a repair knows of lost nodes
// is what stays of the tree: downlinks, fences and siblings. It never looks for nodes elsewhere in
// memory, where old ones are as well.
//
// It goes from the root down, level by level. Of each level it first replaces lost nodes to which a
// downlink leads, under the parents' locks; then it goes along the level, and has siblings of lost
// nodes lead to what replaced them, under the locks of the nodes left of them. Each change is one
// WRITE of a node (rule W2), and leaves a tree that is not worse: so a repair may end at any point,
// and others may work meanwhile. PROTOCOL.md ("Repair of losses") has the argument.
//
// Thread-safety: none; one for each session.
// Cost: levels + 2 RT for each node, one after the other; 3 RT more for each node that is changed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/cache/search_goal.h"
#include "compute/tree/shape/parent_link.h"
#include "compute/tree/tree_context.h"
#include "gossamer/store.h"

namespace gossamer {

class LossRepairer {
 public:
  struct Options {
    std::set<ServerId> lost;  // servers that never come back
    bool dry_run = false;     // changes nothing
    std::function<bool(uint64_t nodes)> progress = {};
  };

  LossRepairer(TreeContext& context, Options options)
      : context_(context), options_(std::move(options)) {}

  // Errors: NodeUnreachable if the root is lost, or another server cannot be reached; Corruption;
  // Exhausted: no memory for a new node; NoResources. What was mended until then stays so.
  Task<Result<RepairReport>> Run();

 private:
  // A node, as those above it name it.
  struct Place {
    RemotePtr node;
    Key low;
    HighFence end;  // where the next node starts that is known
    uint32_t level = 0;
    bool came_over_left = false;
  };
  // Where a node ends.
  struct Ends {
    HighFence high;
    RemotePtr sibling;
  };
  // Nodes that replace lost ones, and what the node needs that will lead to them.
  struct NewNodes {
    explicit NewNodes(TreeContext& context) : unseen(context, 1) {}
    UnseenNodes unseen;
    std::vector<AllocationStamp> stamps;
  };

  bool IsLost(RemotePtr node) const {
    return !node.is_null() && options_.lost.contains(node.server());
  }
  // Runs step(op) until it has succeeded, again after losses, and where others have changed the
  // tree meanwhile.
  Task<Status> Do(std::function<Task<Status>(Op&)> step);
  // Of a step that found the tree other than it has just been.
  static Error HasChanged() {
    return MakeError(Code::kContended, "the tree has changed meanwhile");
  }
  // The node of `level` that `goal` leads to; above it, a lost node on the way; or the root, if the
  // tree is lower.
  Task<Result<Place>> Find(Op& op, SearchGoal goal, uint32_t level);
  Task<Result<Ends>> ReadEnds(Op& op, const Place& place);

  using Visit = Task<Status> (LossRepairer::*)(Op& op, uint32_t level, const Key& from,
                                               HighFence& next);
  // Visits the nodes of a level from left to right; `visit` sets `next` to where the next one
  // starts.
  Task<Status> WalkLevel(uint32_t level, Visit visit);
  // Replaces the lost children of the node. Requires (unchecked): no sibling of its level is lost.
  Task<Status> VisitParent(Op& op, uint32_t level, const Key& from, HighFence& next);
  // `seen`: the node as read before. `behind`: the first child of the next node of this level.
  // `below`: for each lost child that is an internal node, the node that is to be its first child.
  Task<Status> ReplaceChildrenOf(Op& op, const Place& place, const InternalNode& seen,
                                 RemotePtr behind, const std::map<std::string, RemotePtr>& below);
  // What the left neighbour names where a node of `level` starts at `low`; null if that is not
  // known.
  Task<Result<RemotePtr>> FindByLeft(Op& op, uint32_t level, const Key& low);

  // Mends the sibling of the node, and removes entries with lost blocks. Requires (unchecked): of
  // lost nodes of its level to which downlinks lead there are none.
  Task<Status> VisitNode(Op& op, uint32_t level, const Key& from, HighFence& next);
  // Has the node lead to what covers the keys behind it.
  Task<Status> MendSibling(Op& op, const Place& place, const Ends& ends);
  // Counts what is lost behind the node at `place`, which ends at `high`. For a dry run.
  Task<Status> LookBehind(Op& op, const Place& place, const Key& high, HighFence& next);
  Task<Status> VisitLeaf(Op& op, const Place& place, HighFence& next);

  // Adds nodes of `level` that cover [low, end): leaves without entries, or an internal node with
  // `child` alone. Returns the first.
  Task<Result<RemotePtr>> AddNew(Op& op, ServerId near, uint32_t level, const Key& low,
                                 const HighFence& end, RemotePtr sibling, RemotePtr child,
                                 NewNodes& added);
  // Locks the node, and READs it behind the lock.
  Task<Status> Lock(RemotePtr node, RemoteLock& lock, BufferLease& buffers);
  // Writes the new nodes; then the image in `buffers`, of the next version, and ends the lock.
  Task<Status> Commit(Op& op, const Place& place, NodeVersion version, NewNodes& added,
                      RemoteLock& lock, const BufferLease& buffers);
  static Task<Status> ReleaseAfter(RemoteLock& lock, Error error);

  std::span<std::byte> ImageIn(BufferLease& buffers) const;
  Status EncodeLeafIn(BufferLease& buffers, RemotePtr leaf, const LeafContent& content) const;
  uint32_t node_bytes() const { return context_.store.parameters.node_bytes; }
  void AddLost(uint32_t level, const Key& from, const HighFence& end);
  // Says how far it is. Contended if the caller has ended the repair.
  Status Tell();

  TreeContext& context_;
  const Options options_;
  RepairReport report_;
  uint64_t nodes_ = 0;   // visited
  uint64_t leaves_ = 0;  // of the tree that are not new
  bool is_stopped_ = false;
  std::set<uint64_t> new_nodes_;  // words of their pointers
};

}  // namespace gossamer
