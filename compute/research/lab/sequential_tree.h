// A B+tree for one thread: what the trees with locks are compared with.
//
// Entries are in leaves (plain_node.h), which are linked from left to right. An insert that finds
// its leaf full splits it in two halves, and hands separator and right half to the parent, which
// may split in turn; a root that splits gets a new root above.
//
// Source: Comer, "The Ubiquitous B-Tree", Computing Surveys 11(2), 1979.
// Cost: one node of each level an operation; an insert that splits n nodes allocates n.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compute/research/lab/plain_node.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab {

// `Payload` is what a key has: the trees that are made of this one keep more than a value.
template <uint32_t kFanout, typename Payload = Value>
class SequentialTree {
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
    root->Add(0, split->separator, split->right);
    root_ = root;
  }

  std::optional<Payload> Get(Key key) const {
    const Leaf* const leaf = FindLeaf(key);
    const uint32_t at = leaf->LowerBound(key);
    if (!leaf->Has(at, key)) return std::nullopt;
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

  struct Leaf : PlainLeaf<Node, kFanout, Payload> {
    Leaf() : PlainLeaf<Node, kFanout, Payload>(true) {}

    // Moves the upper half to a new leaf.
    Split SplitOff() {
      auto* const right = new Leaf;
      const Key separator = this->MoveUpperHalf(*right);
      right->next = next;
      next = right;
      return {separator, right};
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
    if (inner->IsFull()) {
      split = inner->SplitOff();
      if (entry.key >= split->separator) {
        inner = AsInner(split->right);
        at = inner->ChildFor(entry.key);
      }
    }
    inner->Add(at, below->separator, below->right);
    return split;
  }

  template <typename Replace>
  std::optional<Split> InsertInto(Leaf* leaf, const EntryOf<Payload>& entry,
                                  const Replace& replace) {
    uint32_t at = leaf->LowerBound(entry.key);
    if (leaf->Has(at, entry.key)) {
      replace(leaf->payloads[at], entry.value);
      return std::nullopt;
    }
    std::optional<Split> split;
    if (leaf->IsFull()) {
      split = leaf->SplitOff();
      if (entry.key >= split->separator) leaf = AsLeaf(split->right);
      at = leaf->LowerBound(entry.key);
    }
    leaf->Add(at, entry.key, entry.value);
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
