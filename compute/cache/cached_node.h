// CachedNode: an internal node in the cache, laid out for searching.
//
// Immutable except for the hints, `chances` and links. One allocation:
//   CachedNode | prefixes[count] | children[count] | hints[count] (level 1) | ends[count] | separators
// The search compares 8-byte prefixes and looks at whole separators only if the prefixes are equal.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "proto/internal_node.h"
#include "proto/key.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class CachedNode {
 public:
  // Release with `Free`.
  static CachedNode* Make(RemotePtr pointer, const InternalNode& node);
  static void Free(void* node);

  RemotePtr pointer() const { return pointer_; }
  NodeVersion version() const { return version_; }
  uint32_t level() const { return level_; }
  uint32_t count() const { return count_; }
  KeyView low() const { return separator(0); }
  const HighFence& high() const { return high_; }
  size_t bytes() const { return bytes_; }

  // The child whose range contains `key`. Requires: the node's range contains `key`.
  uint32_t ChildIndex(KeyView key) const;
  // The last child whose range starts below `bound`. Requires: low() < bound.
  uint32_t ChildIndexBelow(KeyView bound) const;
  KeyView separator(uint32_t i) const {
    const uint32_t start = i == 0 ? 0 : ends()[i - 1];
    return {separators() + start, ends()[i] - start};
  }
  RemotePtr child(uint32_t i) const { return RemotePtr::FromWord(children()[i]); }
  // The LeafHint of child `i`. Requires: level 1.
  std::atomic<uint64_t>& hint(uint32_t i) const { return hints()[i]; }

  // For the cache: how often the clock hand still passes this node, and the bucket's chain.
  mutable std::atomic<uint32_t> chances{0};
  std::atomic<CachedNode*> next{nullptr};
  // A forgotten node is not searched. It keeps the hints until the node is inserted again.
  std::atomic<bool> is_forgotten{false};
  // Neighbours in the ring of all nodes; under the cache's mutex.
  CachedNode* clock_before = nullptr;
  CachedNode* clock_behind = nullptr;

 private:
  CachedNode() = default;

  const std::byte* tail() const { return reinterpret_cast<const std::byte*>(this + 1); }
  std::byte* tail() { return reinterpret_cast<std::byte*>(this + 1); }
  const uint64_t* prefixes() const { return reinterpret_cast<const uint64_t*>(tail()); }
  const uint64_t* children() const { return prefixes() + count_; }
  std::atomic<uint64_t>* hints() const {
    return reinterpret_cast<std::atomic<uint64_t>*>(const_cast<uint64_t*>(children() + count_));
  }
  const uint32_t* ends() const {
    return reinterpret_cast<const uint32_t*>(children() + (level_ == 1 ? 2 : 1) * count_);
  }
  const char* separators() const { return reinterpret_cast<const char*>(ends() + count_); }
  // The number of separators <= key.
  uint32_t CountNotAbove(KeyView key) const;

  RemotePtr pointer_;
  HighFence high_;
  NodeVersion version_{0};
  uint32_t level_ = 0;
  uint32_t count_ = 0;
  uint32_t bytes_ = 0;
};

}  // namespace gossamer
