// TreeWalk: meets all nodes and value blocks of a tree while others work on it.
//
// It goes along each level from the left, from the root's down. What is part of the tree during the
// whole walk, it meets. It may also meet what was part of it for a while, and some of that twice.
//
// Thread-safety: none.
// Cost: 1 RT for each node, one after the other; with kOnlyMet for kMostSampled of the leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/random.h"
#include "common/random_id.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/tree/tree.h"
#include "proto/control.h"

namespace gossamer {

class TreeWalk {
 public:
  // So many leaves tell the number of keys to 1 % where leaves are as full as random keys make
  // them, and to 3 % where half of them are full and half nearly empty.
  static constexpr uint64_t kMostSampled = 400;

  // Whether leaves are read, or only met in their parents: then no value block is met, nor a leaf
  // without a downlink, and a sample of the leaves is read for the number of keys.
  enum class Leaves : uint8_t { kRead, kOnlyMet };
  using Meet =
      std::function<void(ServerId, uint64_t offset, uint64_t bytes, control::ExtentKind kind)>;

  // `progress` is called now and then with the number of nodes read. If it returns false, the walk
  // ends early.
  TreeWalk(StoreState& shared, Tree& tree, Meet meet, std::function<bool(uint64_t nodes)> progress)
      : shared_(shared), tree_(tree), meet_(std::move(meet)), progress_(std::move(progress)) {}

  // Errors: NodeUnreachable; Corruption; Contended if `progress` has ended it.
  Task<Status> Run(Leaves leaves);

  // After Run: how many keys the leaves have, and whether that is more than was counted.
  uint64_t keys() const;
  bool keys_are_estimated() const { return leaves_read_ < leaves_met_; }

 private:
  // A node on the way along its level.
  struct Place {
    RemotePtr node;  // null: to be found by `from`
    Key low;         // of the node
    Key from;        // the first key that no node met so far covers
    bool came_over_left = false;
  };

  Task<Status> WalkLevel(uint32_t level, Leaves leaves);
  // Meets the node at the place, unless it is the wrong one, and moves on. Returns whether the
  // level has ended.
  Task<Result<bool>> MeetNode(uint32_t level, Leaves leaves, Place& place);
  Task<Result<bool>> MeetInternal(uint32_t level, Leaves leaves, Place& place);
  Task<Result<bool>> MeetLeaf(Place& place);
  void Sample(const InternalNode::Child& leaf);
  Task<Status> ReadSample();
  void MeetAt(RemotePtr node) {
    meet_(node.server(), node.offset(), shared_.parameters.node_bytes, control::ExtentKind::kNodes);
  }
  static bool PassNode(Place& place, bool is_it, const HighFence& high, RemotePtr sibling);

  StoreState& shared_;
  Tree& tree_;
  const Meet meet_;
  const std::function<bool(uint64_t)> progress_;
  uint64_t nodes_ = 0;
  uint64_t leaves_met_ = 0;
  uint64_t leaves_read_ = 0;
  uint64_t keys_read_ = 0;  // of the leaves that were read
  std::vector<InternalNode::Child> sample_;
  Random random_{RandomId()};
};

}  // namespace gossamer
