// NodeMemory: allocates the nodes of a cache, counts their bytes, and frees them when no reader can
// still see them.
//
// Thread-safety: under the owner's lock, except `bytes`.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/epoch.h"
#include "compute/cache/node_arena.h"
#include "compute/cache/separator_node.h"

namespace gossamer {

class NodeMemory {
 public:
  NodeMemory() = default;
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  NodeArena& arena() { return arena_; }
  const NodeArena& arena() const { return arena_; }
  EpochDomain& epochs() { return epochs_; }

  // Readers can find nodes of `added` bytes more, and of `removed` bytes no more.
  void Count(uint64_t added, uint64_t removed) {
    bytes_.fetch_add(added - removed, std::memory_order_relaxed);
  }
  // `node` is not linked any more. Does not count.
  void Retire(SeparatorNode* node) { epochs_.Retire(node); }
  // `node` was never linked.
  void Discard(SeparatorNode* node) { SeparatorNode::Free(arena_, node); }

  // Of the nodes that readers can find.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  NodeArena arena_;
  EpochDomain epochs_{[this](void* node) { Discard(static_cast<SeparatorNode*>(node)); }};
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace gossamer
