// CachedNode: an internal node of the tree as the cache keeps it: a SeparatorNode whose payload is
// the children, of a level 1 node each with its LeafHint, and a tail with what the tree needs to
// know of it.
//
// Thread-safety: immutable, except hints (atomics) and what is marked as the cache's (under its
// mutex). Readers hold an epoch guard.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/cache/separator_node.h"
#include "proto/internal_node.h"
#include "proto/key.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class CachedNode {
 public:
  CachedNode() = default;
  explicit CachedNode(const SeparatorNode* node) : node_(const_cast<SeparatorNode*>(node)) {}

  // Makes a node that no reader can find yet. `separators`: of `node`, with children and hints.
  static CachedNode Make(NodeArena& arena, SeparatorList& separators, RemotePtr pointer,
                         const InternalNode& node);
  // A copy of `old`, of level 1, with more children behind child `index`. They get no hints.
  // Requires: the separators of `children` ascend, and lie between those of child `index` and the
  // next one.
  static CachedNode MakeWithChildren(NodeArena& arena, SeparatorList& separators, CachedNode old,
                                     uint32_t index, std::span<const InternalNode::Child> children);

  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(const CachedNode&, const CachedNode&) = default;
  SeparatorNode* node() const { return node_; }

  RemotePtr pointer() const { return RemotePtr::FromWord(tail().pointer); }
  NodeVersion version() const { return tail().version; }
  // Whether this has the content of `node` at `pointer`, but for the version. A child's low fence
  // never changes: of equal children the separators are equal.
  bool HasContentOf(RemotePtr pointer, const InternalView& node) const;
  uint32_t level() const { return tail().level; }
  uint32_t count() const { return node_->count(); }
  uint32_t bytes() const { return node_->bytes(); }
  Key low() const { return node_->separator(0); }
  HighFence high() const {
    return tail().is_last ? HighFence{} : HighFence::At({high_key(), tail().high_bytes});
  }

  Key separator(uint32_t i) const { return node_->separator(i); }
  RemotePtr child(uint32_t i) const {
    return RemotePtr::FromWord(node_->payload(i).load(std::memory_order_relaxed));
  }
  // The LeafHint of child `i`. Requires: level 1.
  std::atomic<uint64_t>& hint(uint32_t i) const {
    assert(level() == 1);
    return node_->payload(i, 1);
  }
  // As in InternalNode.
  uint32_t ChildIndex(KeyView key) const { return node_->ChildIndex(key); }
  uint32_t ChildIndexBelow(KeyView bound) const { return node_->ChildIndexBelow(bound); }

  // The cache's: neighbours in the ring of all nodes, and the measured benefit.
  struct Upkeep {
    SeparatorNode* before;
    SeparatorNode* behind;
    uint32_t benefit;
  };
  Upkeep& upkeep() const { return tail().upkeep; }
  // Under the cache's mutex, as version().
  void SetVersion(NodeVersion version) const { tail().version = version; }

 private:
  struct Tail {
    uint64_t pointer;
    Upkeep upkeep;
    NodeVersion version;
    uint8_t level;
    bool is_last;  // the high fence is infinite
    uint16_t high_bytes;
  };
  // Behind the tail.
  char* high_key() const { return reinterpret_cast<char*>(&tail() + 1); }
  Tail& tail() const { return *reinterpret_cast<Tail*>(node_->tail()); }
  static CachedNode Make(NodeArena& arena, const SeparatorList& separators, uint64_t pointer,
                         NodeVersion version, uint32_t level, const HighFence& high);
  static uint32_t TailBytes(const HighFence& high);
  // Fills the tail of a new node.
  static CachedNode Finish(SeparatorNode* node, uint64_t pointer, NodeVersion version,
                           uint32_t level, const HighFence& high);

  SeparatorNode* node_ = nullptr;
};

}  // namespace gossamer
