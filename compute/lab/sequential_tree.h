// A B+tree for one thread: what the trees with locks are compared with.
//
// Entries are in leaves, which are linked from left to right. An inner node with n children has n - 1
// separators: child i leads to the keys k with separator[i - 1] <= k < separator[i]. An insert that
// finds its leaf full splits it in two halves, and hands separator and right half to the parent,
// which may split in turn; a root that splits gets a new root above.
//
// Source: Comer, "The Ubiquitous B-Tree", Computing Surveys 11(2), 1979.
// Cost: one node of each level an operation; an insert that splits n nodes allocates n.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compute/lab/tree.h"

namespace gossamer::lab {

// `Payload` is what a key has: the trees that are made of this one keep more than a value.
template <uint32_t kFanout, typename Payload = Value>
class SequentialTree {
  static_assert(kFanout >= 4, "an inner node that splits leaves a separator in each half");

 public:
  static constexpr bool kManyThreads = false;

  SequentialTree() : root_(new Leaf) {}
  SequentialTree(const SequentialTree&) = delete;
  SequentialTree& operator=(const SequentialTree&) = delete;
  ~SequentialTree() { Delete(root_); }

  // Adds the key, or replaces what it has.
  void Insert(Key key, const Payload& payload) {
    Insert(key, payload, [](Payload& present, const Payload& given) { present = given; });
  }

  // Adds the key, or calls `replace(what it has, payload)`.
  template <typename Replace>
  void Insert(Key key, const Payload& payload, const Replace& replace) {
    const std::optional<Split> split = InsertBelow(root_, {key, payload}, replace);
    if (!split) return;
    auto* const root = new Inner;
    root->children[0] = root_;
    root->Add(0, *split);
    root_ = root;
  }

  std::optional<Payload> Get(Key key) const {
    const Leaf* const leaf = FindLeaf(key);
    const uint32_t at = leaf->LowerBound(key);
    if (at == leaf->count || leaf->keys[at] != key) return std::nullopt;
    return leaf->payloads[at];
  }

  size_t Scan(Key from, std::span<EntryOf<Payload>> found) const {
    const Leaf* leaf = FindLeaf(from);
    uint32_t at = leaf->LowerBound(from);
    size_t count = 0;
    for (; leaf != nullptr; leaf = leaf->next, at = 0) {
      for (; at < leaf->count; ++at) {
        if (count == found.size()) return count;
        found[count++] = {leaf->keys[at], leaf->payloads[at]};
      }
    }
    return count;
  }

 private:
  struct Node {
    explicit Node(bool leaf) : is_leaf(leaf) {}
    const bool is_leaf;
    uint32_t count = 0;  // of entries, or of separators
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

    // Requires: the leaf is not full.
    void Add(uint32_t at, const EntryOf<Payload>& entry) {
      Key* const past = keys.data() + this->count;
      std::copy_backward(keys.data() + at, past, past + 1);
      Payload* const past_payload = payloads.data() + this->count;
      std::copy_backward(payloads.data() + at, past_payload, past_payload + 1);
      keys[at] = entry.key;
      payloads[at] = entry.value;
      ++this->count;
    }

    Split MoveUpperHalf() {
      auto* const right = new Leaf;
      const uint32_t kept = this->count / 2;
      right->count = this->count - kept;
      std::copy_n(keys.data() + kept, right->count, right->keys.data());
      std::copy_n(payloads.data() + kept, right->count, right->payloads.data());
      this->count = kept;
      right->next = next;
      next = right;
      return {right->keys[0], right};
    }

    std::array<Key, kFanout> keys;
    std::array<Payload, kFanout> payloads;
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

    // Adds the right half of child `at`. Requires: the node is not full.
    void Add(uint32_t at, const Split& split) {
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

  Leaf* FindLeaf(Key key) const {
    Node* node = root_;
    while (!node->is_leaf) {
      const Inner* const inner = AsInner(node);
      node = inner->children[inner->ChildFor(key)];
    }
    return AsLeaf(node);
  }

  // Returns: what the parent of `node` must add, if `node` was split.
  template <typename Replace>
  std::optional<Split> InsertBelow(Node* node, const EntryOf<Payload>& entry,
                                   const Replace& replace) {
    if (node->is_leaf) return InsertInto(AsLeaf(node), entry, replace);
    Inner* inner = AsInner(node);
    uint32_t at = inner->ChildFor(entry.key);
    const std::optional<Split> below = InsertBelow(inner->children[at], entry, replace);
    if (!below) return std::nullopt;
    std::optional<Split> split;
    if (inner->count == kFanout - 1) {
      split = inner->MoveUpperHalf();
      if (entry.key >= split->separator) {
        inner = AsInner(split->right);
        at = inner->ChildFor(entry.key);
      }
    }
    inner->Add(at, *below);
    return split;
  }

  template <typename Replace>
  std::optional<Split> InsertInto(Leaf* leaf, const EntryOf<Payload>& entry,
                                  const Replace& replace) {
    uint32_t at = leaf->LowerBound(entry.key);
    if (at < leaf->count && leaf->keys[at] == entry.key) {
      replace(leaf->payloads[at], entry.value);
      return std::nullopt;
    }
    std::optional<Split> split;
    if (leaf->count == kFanout) {
      split = leaf->MoveUpperHalf();
      if (entry.key >= split->separator) leaf = AsLeaf(split->right);
      at = leaf->LowerBound(entry.key);
    }
    leaf->Add(at, entry);
    return split;
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

  Node* root_;
};

}  // namespace gossamer::lab
