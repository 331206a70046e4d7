// A B-link tree: each node has a link to its right sibling and a high key, so that no operation but
// the upper part of an insert holds more than one lock.
//
// Overview:
//   Node    covers the keys below its `high`, the smallest key of its right sibling; the rightmost
//           node of a level has no sibling, and covers all keys that are left.
//   Move    a search for a key that is not below `high` moves right: the node was split after its
//           parent was read, and the parent may not know of the sibling yet.
//   Read    one node at a time: lock shared, copy what is needed, unlock.
//   Insert  descends as a reader, and notes the inner nodes it passes. It locks the leaf
//           exclusively and moves right. A full leaf is split: the new sibling is complete before
//           the leaf's lock is released. The separator goes to the parent, which is locked (and
//           moved right along) while the child is still locked. So an insert holds three locks at
//           most: of a child, its parent, and the parent's sibling.
//
// No deadlock: locks are waited for from left to right within a level, and upwards between levels;
// a reader waits with no lock held.
//
// Lehman and Yao read a disk page at once and need no lock for that. Here, a read takes the node's
// lock shared for as long as the page would take to read. A root that splits gets a new root above;
// `root_` is replaced under the old root's lock. An insert whose descent began below what is the
// root by now finds the parent by descending again.
//
// Source: Lehman and Yao, "Efficient Locking for Concurrent Operations on B-Trees", ACM TODS 6(4),
// 1981.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <utility>

#include "compute/research/lab/plain_node.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab {

template <uint32_t kFanout>
class BlinkTree {
 public:
  static constexpr bool kManyThreads = true;

  BlinkTree() : root_(new Leaf) {}
  BlinkTree(const BlinkTree&) = delete;
  BlinkTree& operator=(const BlinkTree&) = delete;
  ~BlinkTree() { DeleteLevels(root_); }

  void Insert(Key key, Value value) {
    Path path;
    Locked locked = LockFor(key, Descend(key, 0, &path));
    std::optional<Split> split = PutIntoLeaf(AsLeaf(locked.node), key, value);
    while (split) {
      Node* const child = locked.node;
      if (child == root_.load(std::memory_order_relaxed)) {
        root_.store(NewRoot(child, *split), std::memory_order_release);
        return;
      }
      // The child stays locked until the parent is, so that its next split comes after this one.
      Locked parent = LockFor(split->separator, ParentOf(child, path, split->separator));
      split = AddToInner(AsInner(parent.node), *split);
      locked = std::move(parent);
    }
  }

  std::optional<Value> Get(Key key) const {
    const Node* node = Descend(key, 0, nullptr);
    for (;;) {
      const SharedLock lock(node->lock);
      if (node->Covers(key)) {
        const Leaf* const leaf = AsLeaf(node);
        const uint32_t at = leaf->LowerBound(key);
        return leaf->Has(at, key) ? std::optional(leaf->payloads[at]) : std::nullopt;
      }
      node = node->right;
    }
  }

  size_t Scan(Key from, std::span<Entry> found) const {
    size_t count = 0;
    for (const Node* node = Descend(from, 0, nullptr); node != nullptr;) {
      const SharedLock lock(node->lock);
      const Leaf* const leaf = AsLeaf(node);
      for (uint32_t at = leaf->LowerBound(from); at < leaf->count; ++at) {
        if (count == found.size()) return count;
        found[count++] = {leaf->keys[at], leaf->payloads[at]};
      }
      node = leaf->right;
    }
    return count;
  }

 private:
  using SharedLock = std::shared_lock<std::shared_mutex>;
  using ExclusiveLock = std::unique_lock<std::shared_mutex>;

  struct Node {
    explicit Node(uint32_t node_level) : level(node_level) {}

    bool Covers(Key key) const { return right == nullptr || key < high; }

    const uint32_t level;  // 0: a leaf. Needs no lock
    uint32_t count = 0;    // of entries, or of separators
    Key high = 0;          // means nothing without a right sibling
    Node* right = nullptr;
    mutable std::shared_mutex lock;
  };

  // What a split leaves to the parent: the smallest key that belongs to the right half.
  struct Split {
    Key separator;
    Node* right;
  };

  struct Locked {
    Node* node;
    ExclusiveLock lock;
  };

  // The inner nodes that a descent left downwards, by level: where a separator belongs, or left of
  // there.
  struct Path {
    static constexpr uint32_t kMaxLevels = 64;  // each level has twice the nodes of the one above
    uint32_t levels;                            // of the tree when the descent began
    std::array<Node*, kMaxLevels> nodes;        // from 1 to `levels` - 1
  };

  struct Leaf : PlainLeaf<Node, kFanout, Value> {
    Leaf() : PlainLeaf<Node, kFanout, Value>(0) {}

    // Moves the upper half to a new sibling.
    Split SplitOff() {
      auto* const sibling = new Leaf;
      const Key separator = this->MoveUpperHalf(*sibling);
      return Link(*this, separator, sibling);
    }
  };

  struct Inner : PlainInner<Node, kFanout> {
    explicit Inner(uint32_t node_level) : PlainInner<Node, kFanout>(node_level) {}

    Split SplitOff() {
      auto* const sibling = new Inner(this->level);
      const Key separator = this->MoveUpperHalf(*sibling);
      return Link(*this, separator, sibling);
    }
  };

  static Leaf* AsLeaf(Node* node) { return static_cast<Leaf*>(node); }
  static const Leaf* AsLeaf(const Node* node) { return static_cast<const Leaf*>(node); }
  static Inner* AsInner(Node* node) { return static_cast<Inner*>(node); }

  // Puts the new `sibling` right of `node`.
  static Split Link(Node& node, Key separator, Node* sibling) {
    sibling->high = node.high;
    sibling->right = node.right;
    node.high = separator;
    node.right = sibling;
    return {separator, sibling};
  }

  // A node of `level` that covers `key`, or did before it was split. Fills `path` if there is one.
  Node* Descend(Key key, uint32_t level, Path* path) const {
    Node* node = root_.load(std::memory_order_acquire);
    if (path != nullptr) path->levels = node->level + 1;
    while (node->level > level) {
      const SharedLock lock(node->lock);
      if (node->Covers(key)) {
        if (path != nullptr) path->nodes[node->level] = node;
        const Inner* const inner = AsInner(node);
        node = inner->children[inner->ChildFor(key)];
      } else {
        node = node->right;
      }
    }
    return node;
  }

  // The node that covers `key`: `node` or one right of it. A left one is locked until the next is.
  static Locked LockFor(Key key, Node* node) {
    ExclusiveLock lock(node->lock);
    while (!node->Covers(key)) {
      node = node->right;
      lock = ExclusiveLock(node->lock);
    }
    return {node, std::move(lock)};
  }

  // Requires (unchecked): `child` is locked, and not the root.
  Node* ParentOf(const Node* child, const Path& path, Key separator) const {
    const uint32_t level = child->level + 1;
    return level < path.levels ? path.nodes[level] : Descend(separator, level, nullptr);
  }

  static Node* NewRoot(Node* left, const Split& split) {
    auto* const root = new Inner(left->level + 1);
    root->children[0] = left;
    root->Add(0, split.separator, split.right);
    return root;
  }

  // The new sibling of a split needs no lock: it is reached only over the node that is locked.
  static std::optional<Split> PutIntoLeaf(Leaf* leaf, Key key, Value value) {
    uint32_t at = leaf->LowerBound(key);
    if (leaf->Has(at, key)) {
      leaf->payloads[at] = value;
      return std::nullopt;
    }
    std::optional<Split> split;
    if (leaf->IsFull()) {
      split = leaf->SplitOff();
      if (key >= split->separator) leaf = AsLeaf(split->right);
      at = leaf->LowerBound(key);
    }
    leaf->Add(at, key, value);
    return split;
  }

  static std::optional<Split> AddToInner(Inner* inner, const Split& below) {
    std::optional<Split> split;
    if (inner->IsFull()) {
      split = inner->SplitOff();
      if (below.separator >= split->separator) inner = AsInner(split->right);
    }
    inner->Add(inner->ChildFor(below.separator), below.separator, below.right);
    return split;
  }

  static void DeleteLevels(Node* leftmost) {
    while (leftmost != nullptr) {
      Node* const below = leftmost->level == 0 ? nullptr : AsInner(leftmost)->children[0];
      for (Node* node = leftmost; node != nullptr;) {
        Node* const right = node->right;
        if (node->level == 0) {
          delete AsLeaf(node);
        } else {
          delete AsInner(node);
        }
        node = right;
      }
      leftmost = below;
    }
  }

  std::atomic<Node*> root_;
};

}  // namespace gossamer::lab
