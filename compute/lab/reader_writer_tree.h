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
// No deadlock: a thread that holds a lock waits only for locks further down, or further to the right
// on the level of leaves.
//
// Source: Bayer and Schkolnick, "Concurrency of Operations on B-Trees", Acta Informatica 9, 1977: the
// first descent is their solution 2, the second their solution 1, with splits on the way down (Guibas
// and Sedgewick, "A Dichromatic Framework for Balanced Trees", 1978) in place of locks on all nodes
// that may split.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <utility>

#include "compute/lab/tree.h"

namespace gossamer::lab {

template <uint32_t kFanout>
class ReaderWriterTree {
  static_assert(kFanout >= 4, "an inner node that splits leaves a separator in each half");

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
    return leaf->values[at];
  }

  size_t Scan(Key from, std::span<Entry> found) const {
    auto [leaf, lock] = FindLeaf<SharedLock>(from);
    size_t count = 0;
    for (uint32_t at = leaf->LowerBound(from);; at = 0) {
      for (; at < leaf->count; ++at) {
        if (count == found.size()) return count;
        found[count++] = {leaf->keys[at], leaf->values[at]};
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

  struct Leaf : Node {
    Leaf() : Node(true) {}

    uint32_t LowerBound(Key key) const {
      const auto end = keys.begin() + this->count;
      return static_cast<uint32_t>(std::lower_bound(keys.begin(), end, key) - keys.begin());
    }

    bool Has(uint32_t at, Key key) const { return at < this->count && keys[at] == key; }

    bool IsFull() const { return this->count == kFanout; }

    // Adds the key, or replaces its value. Returns: whether there was room.
    bool Put(Key key, Value value) {
      const uint32_t at = LowerBound(key);
      if (Has(at, key)) {
        values[at] = value;
        return true;
      }
      if (IsFull()) return false;
      Key* const past = keys.data() + this->count;
      std::copy_backward(keys.data() + at, past, past + 1);
      Value* const past_value = values.data() + this->count;
      std::copy_backward(values.data() + at, past_value, past_value + 1);
      keys[at] = key;
      values[at] = value;
      ++this->count;
      return true;
    }

    Split MoveUpperHalf() {
      auto* const right = new Leaf;
      const uint32_t kept = this->count / 2;
      right->count = this->count - kept;
      std::copy_n(keys.data() + kept, right->count, right->keys.data());
      std::copy_n(values.data() + kept, right->count, right->values.data());
      this->count = kept;
      right->next = next;
      next = right;
      return {right->keys[0], right};
    }

    std::array<Key, kFanout> keys;
    std::array<Value, kFanout> values;
    Leaf* next = nullptr;
  };

  struct Inner : Node {
    Inner() : Node(false) {}

    // The number of the child that leads to `key`.
    uint32_t ChildFor(Key key) const {
      const auto end = separators.begin() + this->count;
      return static_cast<uint32_t>(std::upper_bound(separators.begin(), end, key) -
                                   separators.begin());
    }

    bool IsFull() const { return this->count == kFanout - 1; }

    // Adds the right half of a child. Requires: the node is not full.
    void Add(const Split& split) {
      const uint32_t at = ChildFor(split.separator);
      Key* const past = separators.data() + this->count;
      std::copy_backward(separators.data() + at, past, past + 1);
      Node** const past_child = children.data() + this->count + 1;
      std::copy_backward(children.data() + at + 1, past_child, past_child + 1);
      separators[at] = split.separator;
      children[at + 1] = split.right;
      ++this->count;
    }

    // The separator in the middle moves up.
    Split MoveUpperHalf() {
      auto* const right = new Inner;
      const uint32_t kept = this->count / 2;
      right->count = this->count - kept - 1;
      std::copy_n(separators.data() + kept + 1, right->count, right->separators.data());
      std::copy_n(children.data() + kept + 1, right->count + 1, right->children.data());
      this->count = kept;
      return {separators[kept], right};
    }

    std::array<Key, kFanout - 1> separators;
    std::array<Node*, kFanout> children;
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
        const Split split =
            node->is_leaf ? AsLeaf(node)->MoveUpperHalf() : AsInner(node)->MoveUpperHalf();
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

  // Requires: the parent, or `root_lock_` if `left` is the root, is locked exclusively.
  void AddToParent(Inner* parent, Node* left, const Split& split) {
    if (parent == nullptr) {
      parent = new Inner;
      parent->children[0] = left;
      root_ = parent;
    }
    parent->Add(split);
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
