// LeafFinder: the leaves that the memory of a store's servers holds, found without the tree: for a
// store whose root is lost.
//
// It reads all memory that was handed out for nodes, and accepts what has the checksums of a node
// under one of the generations that a pointer may have (rule R1). A leaf can be read if it is known
// where it starts: its trailer has a short low fence; a long one is known from a parent or a left
// neighbour that was found as well.
//
// Memory also holds leaves of the past: those merged away, and those that a client had written but
// not linked when it died. What leaves that cover a key say counts in this order: one that is not
// frozen; one that another node leads to; the one of the highest version. Where all newer ones are
// lost, an old one is taken for the present.
//
// Thread-safety: none. Requires (unchecked): no client changes the store meanwhile.
// Cost: 1 RT for each 256 KiB of nodes, and 1 RT for each leaf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/scheduler.h"
#include "common/status.h"
#include "proto/internal_node.h"
#include "proto/leaf.h"
#include "proto/node_recognizer.h"
#include "proto/store_parameters.h"

namespace gossamer {

class LeafFinder {
 public:
  // Keys [from, to) as a leaf has them.
  struct Piece {
    RemotePtr leaf;
    Key low;  // of the leaf
    Key from;
    HighFence to;
  };

  LeafFinder(const StoreParameters& parameters, Scheduler& scheduler)
      : node_bytes_(parameters.node_bytes),
        geometry_(parameters),
        recognizer_(geometry_),
        scheduler_(scheduler) {}

  // Reads the nodes of `server`, which the scheduler's endpoint is attached to. Errors:
  // NodeUnreachable.
  Status Look(ServerId server);
  // All that was found, in order of keys; no key is in two pieces.
  std::vector<Piece> Sort();
  // Leaves that are in no piece, as others have their keys; and those of which nothing tells where
  // they start.
  uint64_t old_leaves() const { return old_leaves_; }
  uint64_t unknown_leaves() const { return unknown_leaves_; }

  // READs [offset, offset + bytes) of `server`.
  Result<std::vector<std::byte>> Read(ServerId server, uint64_t offset, uint32_t bytes);

 private:
  struct Leaf {
    RemotePtr pointer;
    Key low;
    HighFence high;
    RemotePtr sibling;
    uint32_t version = 0;
    bool is_frozen = false;
  };
  struct Unread {
    RemotePtr pointer;
    LowFenceMark low;
    std::vector<std::byte> image;
  };

  void LookAt(ServerId server, uint64_t offset, std::span<const std::byte> bytes);
  void NoteInternal(const InternalNode& node);
  bool NoteLeaf(RemotePtr pointer, const Key& low, std::span<const std::byte> image);
  // Reads leaves whose low fence has become known.
  void ReadUnread();

  const uint32_t node_bytes_;
  const LeafGeometry geometry_;
  const NodeRecognizer recognizer_;
  Scheduler& scheduler_;
  std::vector<Leaf> leaves_;
  std::vector<Unread> unread_;
  std::map<uint64_t, Key> lows_;  // of nodes that others lead to, by the words of their pointers
  uint64_t old_leaves_ = 0;
  uint64_t unknown_leaves_ = 0;
};

}  // namespace gossamer
