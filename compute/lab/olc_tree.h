// A B+tree with optimistic lock coupling: readers lock nothing and write nothing.
//
// Overview:
//   Version  each node has a word: bit 0 is set while a writer holds the node; the rest counts the
//            writers that have held it.
//   Read     wait until the node is not locked, note its version, read, and validate: is the version
//            the same? If not, start again from the root.
//   Couple   a child pointer is followed only after its node was validated; a node's result counts
//            only if the parent was still the same once the child's version had been noted.
//   Insert   descends as a reader, and splits every full node it meets, so that a parent always has
//            room. A node is locked by raising its version from the one that was noted: that fails if
//            another writer came between, and the insert starts again.
//
// Memory model (Boehm, "Can Seqlocks Get Along with Programming Language Memory Models?", MSPC 2012):
//   - What is read optimistically may be written at that moment: it is in relaxed atomics. Such a
//     value may be torn from its neighbours. It is bounded all the same (a count never exceeds the
//     arrays), and is used for nothing but reading on until it is validated.
//   - The version is loaded with acquire before the data. An acquire fence stands between the data and
//     the load that validates: if any data was of a writer, the version shows that writer.
//   - A writer's release fence stands between its lock and its data; unlocking is a store with release.
//   - A new node is filled before its pointer is stored and its parent unlocked. A reader follows the
//     pointer only if the parent's version was the same before and after: that version was loaded
//     with acquire from the unlocking store.
//
// Nodes are never freed before the tree is, so that no reader needs an epoch.
//
// Source: Leis, Scheibner, Kemper and Neumann, "The ART of Practical Synchronization", DaMoN 2016;
// Leis, Haubenschild and Neumann, "Optimistic Lock Coupling", IEEE Data Eng. Bulletin 42(1), 2019.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>

#include "compute/lab/tree.h"

namespace gossamer::lab {

template <uint32_t kFanout>
class OlcTree {
  static_assert(kFanout >= 4, "an inner node that splits leaves a separator in each half");

 public:
  static constexpr bool kManyThreads = true;

  OlcTree() : root_(new Leaf) {}
  OlcTree(const OlcTree&) = delete;
  OlcTree& operator=(const OlcTree&) = delete;
  ~OlcTree() { Delete(root_.load()); }

  void Insert(Key key, Value value) {
    while (!TryInsert(key, value)) {
    }
  }

  std::optional<Value> Get(Key key) const {
    for (;;) {
      const std::optional<NotedLeaf> found = FindLeaf(key);
      if (!found) continue;
      const Leaf& leaf = *found->leaf;
      const uint32_t at = leaf.LowerBound(key);
      const bool present = leaf.Has(at, key);
      const Value value = present ? leaf.values[at].load(std::memory_order_relaxed) : 0;
      if (!leaf.version.IsStill(found->version)) continue;
      return present ? std::optional(value) : std::nullopt;
    }
  }

  size_t Scan(Key from, std::span<Entry> found) const {
    size_t count = 0;
    // A leaf that changed while it was read is looked for again, by the first key that is missing.
    while (count < found.size()) {
      const std::optional<NotedLeaf> first = FindLeaf(from);
      if (!first) continue;
      if (ScanLeaves(*first, from, found, count)) break;
    }
    return count;
  }

 private:
  class Version {
   public:
    static constexpr uint64_t kLocked = 1;

    // Waits until no writer has the node.
    uint64_t Note() const {
      constexpr int kSpins = 64;
      for (int spin = 0;; ++spin) {
        const uint64_t version = word_.load(std::memory_order_acquire);
        if ((version & kLocked) == 0) return version;
        if (spin >= kSpins) std::this_thread::yield();  // the writer may have lost its processor
      }
    }

    // Whether what was read since `noted` is of one moment.
    bool IsStill(uint64_t noted) const {
      std::atomic_thread_fence(std::memory_order_acquire);
      return word_.load(std::memory_order_relaxed) == noted;
    }

    // Fails if a writer has had the node since `noted`.
    [[nodiscard]] bool TryLock(uint64_t noted) {
      if (!word_.compare_exchange_strong(noted, noted | kLocked, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
        return false;
      }
      std::atomic_thread_fence(std::memory_order_release);
      return true;
    }

    // Requires: this thread has the lock.
    void Unlock() {
      word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    // Likewise, if nothing was written: readers need not start again.
    void UnlockUnchanged() {
      word_.store(word_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    }

   private:
    std::atomic<uint64_t> word_ = 0;
  };

  using AtomicKey = std::atomic<Key>;

  struct Node {
    explicit Node(bool leaf) : is_leaf(leaf) {}

    uint32_t Count() const { return count.load(std::memory_order_relaxed); }
    void SetCount(uint32_t to) { count.store(to, std::memory_order_relaxed); }

    Version version;
    const bool is_leaf;
    std::atomic<uint32_t> count = 0;  // of entries, or of separators
  };

  // What a split leaves to the parent: the smallest key that belongs to the right half.
  struct Split {
    Key separator;
    Node* right;
  };

  // Moves values [first, past) of an array by one place to the right.
  template <typename Atomics>
  static void MakeRoom(Atomics& values, uint32_t first, uint32_t past) {
    for (uint32_t i = past; i > first; --i) Copy(values[i - 1], values[i]);
  }

  template <typename T>
  static void Copy(const std::atomic<T>& from, std::atomic<T>& to) {
    to.store(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }

  template <typename T>
  static void Set(std::atomic<T>& to, T value) {
    to.store(value, std::memory_order_relaxed);
  }

  // How many of the first `count` keys, in ascending order, are below `key`; with `kOrEqual`, not
  // above it. At most `count`, whatever a writer does meanwhile.
  template <bool kOrEqual, typename Keys>
  static uint32_t CountBelow(const Keys& keys, uint32_t count, Key key) {
    uint32_t first = 0;
    while (count > 0) {
      const uint32_t half = count / 2;
      const Key middle = keys[first + half].load(std::memory_order_relaxed);
      if (kOrEqual ? middle <= key : middle < key) {
        first += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return first;
  }

  struct Leaf : Node {
    Leaf() : Node(true) {}

    uint32_t LowerBound(Key key) const { return CountBelow<false>(keys, this->Count(), key); }

    bool Has(uint32_t at, Key key) const {
      return at < this->Count() && keys[at].load(std::memory_order_relaxed) == key;
    }

    bool IsFull() const { return this->Count() == kFanout; }

    // Requires: locked, and not full unless it has the key.
    void Put(Key key, Value value) {
      const uint32_t at = LowerBound(key);
      if (!Has(at, key)) {
        const uint32_t filled = this->Count();
        MakeRoom(keys, at, filled);
        MakeRoom(values, at, filled);
        Set(keys[at], key);
        this->SetCount(filled + 1);
      }
      Set(values[at], value);
    }

    Split MoveUpperHalf() {
      auto* const right = new Leaf;
      const uint32_t filled = this->Count();
      const uint32_t kept = filled / 2;
      for (uint32_t i = kept; i < filled; ++i) {
        Copy(keys[i], right->keys[i - kept]);
        Copy(values[i], right->values[i - kept]);
      }
      right->SetCount(filled - kept);
      Copy(next, right->next);
      this->SetCount(kept);
      next.store(right, std::memory_order_relaxed);
      return {right->keys[0].load(std::memory_order_relaxed), right};
    }

    std::array<AtomicKey, kFanout> keys;
    std::array<std::atomic<Value>, kFanout> values;
    std::atomic<Leaf*> next = nullptr;
  };

  struct Inner : Node {
    Inner() : Node(false) {}

    // The number of the child that leads to `key`.
    uint32_t ChildFor(Key key) const { return CountBelow<true>(separators, this->Count(), key); }

    bool IsFull() const { return this->Count() == kFanout - 1; }

    // Adds the right half of a child. Requires: locked, and not full.
    void Add(const Split& split) {
      const uint32_t at = ChildFor(split.separator);
      const uint32_t filled = this->Count();
      MakeRoom(separators, at, filled);
      MakeRoom(children, at + 1, filled + 1);
      Set(separators[at], split.separator);
      Set(children[at + 1], split.right);
      this->SetCount(filled + 1);
    }

    // The separator in the middle moves up.
    Split MoveUpperHalf() {
      auto* const right = new Inner;
      const uint32_t filled = this->Count();
      const uint32_t kept = filled / 2;
      for (uint32_t i = kept + 1; i < filled; ++i) {
        Copy(separators[i], right->separators[i - kept - 1]);
        Copy(children[i], right->children[i - kept - 1]);
      }
      Copy(children[filled], right->children[filled - kept - 1]);
      right->SetCount(filled - kept - 1);
      this->SetCount(kept);
      return {separators[kept].load(std::memory_order_relaxed), right};
    }

    std::array<AtomicKey, kFanout - 1> separators;
    std::array<std::atomic<Node*>, kFanout> children;
  };

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
      Set(root->children[0], node);
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
