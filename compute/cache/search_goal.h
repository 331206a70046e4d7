// SearchGoal: what a descent looks for.
#pragma once

#include <cstddef>

#include "proto/internal_node.h"
#include "proto/key.h"

namespace gossamer {

// Either the node whose range contains a key, or the last node that starts below a bound, which may
// be infinite (for reverse scans). Points into the caller's key.
class SearchGoal {
 public:
  static SearchGoal Covering(KeyView key) { return SearchGoal(key, false, false); }
  static SearchGoal Below(const HighFence& bound) {
    return SearchGoal(bound.key.view(), true, bound.infinite);
  }

  // What is sought: the node that covers `key`, or, if `is_below`, the last one below `bound`.
  bool is_below() const { return below_; }
  const KeyView& key() const { return key_; }
  HighFence bound() const { return infinite_ ? HighFence{} : HighFence::At(key_); }

  // Whether the goal starts at or behind a node's high fence: then its right sibling must be
  // followed.
  bool IsBeyond(const HighFence& high) const {
    if (!below_) return !high.Admits(key_);
    return !high.infinite && (infinite_ || key_ > high.key.view());
  }
  // Whether the goal starts before a node's low fence.
  bool IsBefore(KeyView low) const {
    if (!below_) return key_ < low;
    return !infinite_ && key_ <= low;
  }
  // The child to follow in a node if the goal is neither beyond nor before it. `Node` has
  // ChildIndex and ChildIndexBelow.
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
