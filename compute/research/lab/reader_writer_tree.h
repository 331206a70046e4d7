// A B+tree under reader-writer locks, one for each node, taken hand over hand.
//
// Overview:
//   Read    shared locks from the root to the leaf; a node is released once its child is locked.
//   Scan    likewise, then hand over hand along the leaves, from left to right.
//   Insert  first as a reader, but with the leaf locked exclusively: most leaves have room. If the
//           leaf is full, the insert releases it and starts again with exclusive locks. That second
//           descent splits every full node it meets, so that the parent, still locked, always has
//           room for the separator, and two locks at a time are enough.
//
// `root_lock_` guards `root_` and is locked as if it were the root's parent.
//
// No deadlock: a thread that holds a lock waits only for locks further down, or further to the
// right on the level of leaves.
//
// Source: Bayer and Schkolnick, "Concurrency of Operations on B-Trees", Acta Informatica 9, 1977:
// the first descent is their solution 2, the second their solution 1, with splits on the way down
// (Guibas and Sedgewick, "A Dichromatic Framework for Balanced Trees", 1978) in place of locks on
// all nodes that may split.
#pragma once

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
class ReaderWriterTree {
 public:
  static constexpr bool kManyThreads = true;

  ReaderWriterTree() : root_(new Leaf) {}
  ReaderWriterTree(const ReaderWriterTree&) = delete;
  ReaderWriterTree& operator=(const ReaderWriterTree&) = delete;
  ~ReaderWriterTree() { Delete(root_); }

  void Insert(Key key, Value value) {
    if (!InsertWithoutSplit(key, value)) InsertWithSplits(key, value);
  }

  std::optional<Value> Get(Key key) const {
    const auto [leaf, lock] = FindLeaf<SharedLock>(key);
    const uint32_t at = leaf->LowerBound(key);
    if (!leaf->Has(at, key)) return std::nullopt;
    return leaf->payloads[at];
  }

  size_t Scan(Key from, std::span<Entry> found) const {
    auto [leaf, lock] = FindLeaf<SharedLock>(from);
    size_t count = 0;
    for (uint32_t at = leaf->LowerBound(from);; at = 0) {
      for (; at < leaf->count; ++at) {
        if (count == found.size()) return count;
        found[count++] = {leaf->keys[at], leaf->payloads[at]};
      }
      if (leaf->next == nullptr) return count;
      leaf = leaf->next;
      lock = SharedLock(leaf->lock);  // releases the left one once the right one is locked
    }
  }

 private:
  using SharedLock = std::shared_lock<std::shared_mutex>;
  using ExclusiveLock = std::unique_lock<std::shared_mutex>;

  struct Node {
    explicit Node(bool leaf) : is_leaf(leaf) {}
    const bool is_leaf;  // needs no lock
    uint32_t count = 0;  // of entries, or of separators
    mutable std::shared_mutex lock;
  };

  // What a split leaves to the parent: the smallest key that belongs to the right half.
  struct Split {
    Key separator;
    Node* right;
  };

  struct Leaf : PlainLeaf<Node, kFanout, Value> {
    Leaf() : PlainLeaf<Node, kFanout, Value>(true) {}

    // Moves the upper half to a new leaf.
    Split SplitOff() {
      auto* const right = new Leaf;
      const Key separator = this->MoveUpperHalf(*right);
      right->next = next;
      next = right;
      return {separator, right};
    }

    // Adds the key, or replaces its value. Returns: whether there was room.
    bool Put(Key key, Value value) {
      const uint32_t at = this->LowerBound(key);
      if (this->Has(at, key)) {
        this->payloads[at] = value;
        return true;
      }
      if (this->IsFull()) return false;
      this->Add(at, key, value);
      return true;
    }

    Leaf* next = nullptr;
  };

  struct Inner : PlainInner<Node, kFanout> {
    Inner() : PlainInner<Node, kFanout>(false) {}

    Split SplitOff() {
      auto* const right = new Inner;
      const Key separator = this->MoveUpperHalf(*right);
      return {separator, right};
    }
  };

  static Leaf* AsLeaf(Node* node) { return static_cast<Leaf*>(node); }
  static Inner* AsInner(Node* node) { return static_cast<Inner*>(node); }

  static bool IsFull(Node* node) {
    return node->is_leaf ? AsLeaf(node)->IsFull() : AsInner(node)->IsFull();
  }

  // The leaf for `key`, found under shared locks and locked by a `LeafLock`.
  template <typename LeafLock>
  std::pair<Leaf*, LeafLock> FindLeaf(Key key) const {
    SharedLock held(root_lock_);
    Node* node = root_;
    while (!node->is_leaf) {
      held = SharedLock(node->lock);
      const Inner* const inner = AsInner(node);
      node = inner->children[inner->ChildFor(key)];
    }
    return {AsLeaf(node), LeafLock(node->lock)};
  }

  bool InsertWithoutSplit(Key key, Value value) {
    const auto [leaf, lock] = FindLeaf<ExclusiveLock>(key);
    return leaf->Put(key, value);
  }

  void InsertWithSplits(Key key, Value value) {
    ExclusiveLock parent_lock(root_lock_);
    Inner* parent = nullptr;
    Node* node = root_;
    for (;;) {
      ExclusiveLock lock(node->lock);
      if (IsFull(node)) {
        const Split split = node->is_leaf ? AsLeaf(node)->SplitOff() : AsInner(node)->SplitOff();
        AddToParent(parent, node, split);
        if (key >= split.separator) {
          node = split.right;
          lock = ExclusiveLock(node->lock);
        }
      }
      parent_lock = std::move(lock);  // releases the parent
      if (node->is_leaf) break;
      parent = AsInner(node);
      node = parent->children[parent->ChildFor(key)];
    }
    AsLeaf(node)->Put(key, value);
  }

  // Requires (unchecked): the parent, or `root_lock_` if `left` is the root, is locked exclusively.
  void AddToParent(Inner* parent, Node* left, const Split& split) {
    if (parent == nullptr) {
      parent = new Inner;
      parent->children[0] = left;
      root_ = parent;
    }
    parent->Add(parent->ChildFor(split.separator), split.separator, split.right);
  }

  static void Delete(Node* node) {
    if (node->is_leaf) {
      delete AsLeaf(node);
      return;
    }
    Inner* const inner = AsInner(node);
    for (uint32_t i = 0; i <= inner->count; ++i) Delete(inner->children[i]);
    delete inner;
  }

  mutable std::shared_mutex root_lock_;
  Node* root_;
};

}  // namespace gossamer::lab
