// A B+tree with optimistic lock coupling: readers lock nothing and write nothing.
//
// Overview:
//   Version  each node has a word: bit 0 is set while a writer holds the node; the rest counts the
//            writers that have held it.
//   Read     wait until the node is not locked, note its version, read, and validate: is the
//            version the same? If not, start again from the root.
//   Couple   a child pointer is followed only after its node was validated; a node's result counts
//            only if the parent was still the same once the child's version had been noted.
//   Insert   descends as a reader, and splits every full node it meets, so that a parent always has
//            room. A node is locked by raising its version from the one that was noted: that fails
//            if another writer came between, and the insert starts again.
//
// The memory model is in olc_node.h, the traversal of batches in olc_traversal.h.
//
// Nodes are never freed before the tree is, so that no reader needs an epoch.
//
// Source: Leis, Scheibner, Kemper and Neumann, "The ART of Practical Synchronization", DaMoN 2016;
// Leis, Haubenschild and Neumann, "Optimistic Lock Coupling", IEEE Data Eng. Bulletin 42(1), 2019.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "compute/research/lab/olc_node.h"
#include "compute/research/lab/olc_traversal.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab {

template <uint32_t kFanout>
class OlcTree {
  static_assert(kFanout >= 4, "an inner node that splits leaves a separator in each half");

 public:
  static constexpr bool kManyThreads = true;

  // What `Prepare` finds for a key: where an operation on it may begin.
  using Hint = olc::Request;
  static constexpr auto kPrefetches = [] {
    std::array<std::string_view, olc::kStrategies.size()> names;
    for (size_t i = 0; i < names.size(); ++i) names[i] = olc::kStrategies[i].name;
    return names;
  }();

  OlcTree() : root_(new Leaf) {}
  OlcTree(const OlcTree&) = delete;
  OlcTree& operator=(const OlcTree&) = delete;
  ~OlcTree() { Delete(root_.load()); }

  // The first phase of a batch: olc_traversal.h. `prefetch` is a place in kPrefetches.
  // Requires: as many `hints` as `keys`.
  void Prepare(std::span<const Key> keys, std::span<Hint> hints, size_t prefetch) const {
    assert(hints.size() == keys.size());
    [&]<size_t... kNumber>(std::index_sequence<kNumber...> /*numbers*/) {
      ((prefetch == kNumber ? olc::Traversal<kFanout, kNumber>::Run(root_, keys, hints) : void()),
       ...);
    }(std::make_index_sequence<kPrefetches.size()>());
  }

  void Insert(Key key, Value value) {
    while (!TryInsert(key, value)) {
    }
  }

  // The same with a hint for the key, which may be out of date. So with the others.
  void Insert(Key key, Value value, const Hint& hint) {
    if (hint.found) {
      Leaf* const leaf = AsLeaf(hint.node);
      if (!leaf->IsFull() && PutIntoLeaf(leaf, hint.version, key, value)) return;
    }
    Insert(key, value);
  }

  std::optional<Value> Get(Key key) const {
    for (;;) {
      const std::optional<NotedLeaf> found = FindLeaf(key);
      std::optional<Value> value;
      if (found && GetFrom(*found, key, value)) return value;
    }
  }

  std::optional<Value> Get(Key key, const Hint& hint) const {
    std::optional<Value> value;
    if (hint.found && GetFrom({AsLeaf(hint.node), hint.version}, key, value)) return value;
    return Get(key);
  }

  size_t Scan(Key from, std::span<Entry> found) const { return Scan(from, found, {}); }

  size_t Scan(Key from, std::span<Entry> found, const Hint& hint) const {
    size_t count = 0;
    if (hint.found && !found.empty() &&
        ScanLeaves({AsLeaf(hint.node), hint.version}, from, found, count)) {
      return count;
    }
    // A leaf that changed while it was read is looked for again, by the first key that is missing.
    while (count < found.size()) {
      const std::optional<NotedLeaf> first = FindLeaf(from);
      if (!first) continue;
      if (ScanLeaves(*first, from, found, count)) break;
    }
    return count;
  }

 private:
  using Node = olc::Node;
  using Leaf = olc::Leaf<kFanout>;
  using Inner = olc::Inner<kFanout>;
  using Split = olc::Split;

  struct NotedLeaf {
    const Leaf* leaf;
    uint64_t version;
  };

  static Leaf* AsLeaf(Node* node) { return static_cast<Leaf*>(node); }
  static Inner* AsInner(Node* node) { return static_cast<Inner*>(node); }

  static bool IsFull(Node* node) {
    return node->is_leaf ? AsLeaf(node)->IsFull() : AsInner(node)->IsFull();
  }

  // The leaf for `key`, and its version at a moment when it was. nullopt: start again.
  std::optional<NotedLeaf> FindLeaf(Key key) const {
    Node* node = root_.load(std::memory_order_acquire);
    uint64_t version = node->version.Note();
    if (node != root_.load(std::memory_order_relaxed)) return std::nullopt;
    while (!node->is_leaf) {
      const Inner* const inner = AsInner(node);
      Node* const child = inner->children[inner->ChildFor(key)].load(std::memory_order_relaxed);
      if (!inner->version.IsStill(version)) return std::nullopt;
      const uint64_t child_version = child->version.Note();
      if (!inner->version.IsStill(version)) return std::nullopt;
      node = child;
      version = child_version;
    }
    return NotedLeaf{AsLeaf(node), version};
  }

  // Returns: whether `value` is right, as the leaf is still as it was noted.
  static bool GetFrom(const NotedLeaf& at, Key key, std::optional<Value>& value) {
    const Leaf& leaf = *at.leaf;
    const uint32_t place = leaf.LowerBound(key);
    if (leaf.Has(place, key)) value = leaf.values[place].load(std::memory_order_relaxed);
    if (leaf.version.IsStill(at.version)) return true;
    value.reset();
    return false;
  }

  // Appends entries from `from` on to the `count` that are in `found`, leaf by leaf.
  // Returns: whether the scan is complete. If not, `from` is the key to go on with.
  static bool ScanLeaves(NotedLeaf at, Key& from, std::span<Entry> found, size_t& count) {
    for (;;) {
      const Leaf& leaf = *at.leaf;
      size_t read = count;  // counts once it is validated
      const uint32_t entries = leaf.Count();
      for (uint32_t i = leaf.LowerBound(from); i < entries && read < found.size(); ++i) {
        found[read++] = {leaf.keys[i].load(std::memory_order_relaxed),
                         leaf.values[i].load(std::memory_order_relaxed)};
      }
      const Leaf* const next = leaf.next.load(std::memory_order_relaxed);
      if (!leaf.version.IsStill(at.version)) return false;
      count = read;
      if (count == found.size() || next == nullptr) return true;
      if (count > 0) {
        if (found[count - 1].key == ~Key{0}) return true;
        from = std::max(from, found[count - 1].key + 1);
      }
      at = {next, next->version.Note()};
    }
  }

  // One attempt. Returns: false if it must start again.
  bool TryInsert(Key key, Value value) {
    Inner* parent = nullptr;
    uint64_t parent_version = 0;
    Node* node = root_.load(std::memory_order_acquire);
    uint64_t version = node->version.Note();
    if (node != root_.load(std::memory_order_relaxed)) return false;
    for (;;) {
      if (IsFull(node) && !(node->is_leaf && HasKey(AsLeaf(node), key))) {
        SplitNode(parent, parent_version, node, version);
        return false;
      }
      if (node->is_leaf) return PutIntoLeaf(AsLeaf(node), version, key, value);
      Inner* const inner = AsInner(node);
      Node* const child = inner->children[inner->ChildFor(key)].load(std::memory_order_relaxed);
      if (!inner->version.IsStill(version)) return false;
      parent = inner;
      parent_version = version;
      node = child;
      version = child->version.Note();
      if (!parent->version.IsStill(parent_version)) return false;
    }
  }

  static bool HasKey(const Leaf* leaf, Key key) { return leaf->Has(leaf->LowerBound(key), key); }

  // The version is that of a moment when the leaf was the one for `key`. As the lock is taken from
  // that version, it still is: only a split of the leaf itself moves keys out of it.
  static bool PutIntoLeaf(Leaf* leaf, uint64_t version, Key key, Value value) {
    if (!leaf->version.TryLock(version)) return false;
    leaf->Put(key, value);
    leaf->version.Unlock();
    return true;
  }

  // Splits a full node, unless a writer has had it or its parent since the versions were noted.
  void SplitNode(Inner* parent, uint64_t parent_version, Node* node, uint64_t version) {
    if (parent != nullptr && !parent->version.TryLock(parent_version)) return;
    if (!node->version.TryLock(version)) {
      if (parent != nullptr) parent->version.UnlockUnchanged();
      return;
    }
    const Split split =
        node->is_leaf ? AsLeaf(node)->MoveUpperHalf() : AsInner(node)->MoveUpperHalf();
    if (parent != nullptr) {
      parent->Add(split);
      parent->version.Unlock();
    } else {
      auto* const root = new Inner;
      olc::Set(root->children[0], node);
      root->Add(split);
      root_.store(root, std::memory_order_release);
    }
    node->version.Unlock();
  }

  static void Delete(Node* node) {
    if (node->is_leaf) {
      delete AsLeaf(node);
      return;
    }
    Inner* const inner = AsInner(node);
    for (uint32_t i = 0; i <= inner->Count(); ++i) Delete(inner->children[i].load());
    delete inner;
  }

  std::atomic<Node*> root_;
};

}  // namespace gossamer::lab
