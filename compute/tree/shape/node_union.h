// NodeUnion: what two neighbours of one level make together, and the right one frozen.
//
// Thread-safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compute/leaf/leaf_packer.h"
#include "proto/internal_node.h"
#include "proto/leaf.h"

namespace gossamer {

// A node and the node right of it.
struct Neighbours {
  RemotePtr parent;  // of both; null if it is not needed
  uint32_t level = 0;
  RemotePtr left;
  Key low;  // where the left one starts
  RemotePtr right;
  Key separator;  // where the right one starts
};

class NodeUnion {
 public:
  explicit NodeUnion(const LeafGeometry& geometry) : geometry_(geometry), packer_(geometry) {}

  // Whether the right one is as it was, or frozen.
  enum class Right : uint8_t { kLive, kFrozen };
  // Combines the nodes with the images `left` and `right`, which are kept until Encode.
  // Returns false if they are not valid, not neighbours, the left one is frozen or the right one is
  // not as `state` says.
  bool Combine(const Neighbours& nodes, std::span<const std::byte> left,
               std::span<const std::byte> right, Right state);

  // Of the combined nodes: what the entries or children take, and what fits into a node.
  size_t bytes() const { return bytes_; }
  size_t capacity() const { return capacity_; }
  // Whether one of the nodes has no entries. No internal node is without children.
  bool has_empty() const { return has_empty_; }
  NodeVersion version() const { return version_; }
  // Of internal nodes.
  const InternalNode& node() const { return node_; }

  // Writes the left node with all that both have, of its next version, to `out`. Returns false, and
  // writes nothing, if it does not fit, or its fences or keys would be longer than those of a node
  // may be. `out` is none of the images.
  bool Encode(std::span<std::byte> out, uint64_t& hint);
  // Makes the right node of its image the frozen one, of its next version.
  void Freeze(std::span<std::byte> right) const;
  NodeVersion frozen_version() const { return Next(right_version_); }

 private:
  bool CombineLeaves(std::span<const std::byte> left, std::span<const std::byte> right,
                     bool is_frozen);
  bool CombineInternal(std::span<const std::byte> left, std::span<const std::byte> right,
                       bool is_frozen);

  LeafGeometry geometry_;
  LeafPacker packer_;
  Neighbours nodes_;
  size_t bytes_ = 0;
  size_t capacity_ = 0;
  bool has_empty_ = false;
  bool are_short_ = false;  // the keys that one leaf would store whole
  NodeVersion version_{0};
  NodeVersion right_version_{0};
  HighFence high_;
  RemotePtr sibling_;
  KeyArena keys_;  // of the entries
  std::vector<Entry> entries_;
  InternalNode node_;
};

}  // namespace gossamer
