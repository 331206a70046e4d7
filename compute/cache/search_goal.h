// SearchGoal: what a descent looks for.
#pragma once

#include <cstddef>

#include "proto/internal_node.h"
#include "proto/key.h"

namespace gossamer {

// Either the node whose range has a key, or the last node that starts below a bound (of a reverse scan), where
// the bound may be infinite. Points into the caller's key.
class SearchGoal {
 public:
  static SearchGoal Covering(KeyView key) { return SearchGoal(key, false, false); }
  static SearchGoal Below(const HighFence& bound) {
    return SearchGoal(bound.key.view(), true, bound.infinite);
  }

  // Whether what is sought starts at or behind a node's high fence, so that its sibling must be asked.
  bool IsBeyond(const HighFence& high) const {
    if (!below_) return !high.Admits(key_);
    return !high.infinite && (infinite_ || key_ > high.key.view());
  }
  // Whether what is sought starts before a node's low fence.
  bool IsBefore(KeyView low) const {
    if (!below_) return key_ < low;
    return !infinite_ && key_ <= low;
  }
  // The child to follow in a node that is neither: `Node` has ChildIndex, ChildIndexBelow and a count.
  template <typename Node>
  uint32_t Choose(const Node& node, size_t count) const {
    if (!below_) return static_cast<uint32_t>(node.ChildIndex(key_));
    if (infinite_) return static_cast<uint32_t>(count - 1);
    return static_cast<uint32_t>(node.ChildIndexBelow(key_));
  }

 private:
  SearchGoal(KeyView key, bool below, bool infinite)
      : key_(key), below_(below), infinite_(infinite) {}

  KeyView key_;
  bool below_;
  bool infinite_;
};

}  // namespace gossamer
