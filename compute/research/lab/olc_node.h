// Nodes of the B+tree with optimistic lock coupling.
//
// Memory model (Boehm, "Can Seqlocks Get Along with Programming Language Memory Models?", MSPC
// 2012):
//   - What is read optimistically may be written at that moment: it is in relaxed atomics. Such a
//     value may be torn from its neighbours. It is bounded all the same (a count never exceeds the
//     arrays), and is used for nothing but reading on until it is validated.
//   - The version is loaded with acquire before the data. An acquire fence stands between the data
//     and the load that validates: if any data was of a writer, the version shows that writer.
//   - A writer's release fence stands between its lock and its data. It unlocks by a release store.
//   - A new node is filled before its pointer is stored and its parent unlocked. A reader follows
//     the pointer only if the parent's version was the same before and after: that version was
//     loaded with acquire from the unlocking store. A reader that validates nothing
//     (olc_traversal.h) loads the pointer itself with acquire.
#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <thread>
#include <type_traits>

#include "compute/research/lab/tree.h"

namespace gossamer::lab::olc {

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

  // Requires (unchecked): this thread has the lock.
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

// Begins a line of the processor's cache, so that version, kind and count are one miss.
struct alignas(64) Node {
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

// A pointer is stored so that the node behind it is complete for a thread that loads it with
// acquire.
template <typename T>
void Set(std::atomic<T>& to, T value) {
  to.store(value, std::is_pointer_v<T> ? std::memory_order_release : std::memory_order_relaxed);
}

template <typename T>
void Copy(const std::atomic<T>& from, std::atomic<T>& to) {
  Set(to, from.load(std::memory_order_relaxed));
}

// Moves values [first, past) of an array by one place to the right.
template <typename Atomics>
void MakeRoom(Atomics& values, uint32_t first, uint32_t past) {
  for (uint32_t i = past; i > first; --i) Copy(values[i - 1], values[i]);
}

// How many of the first `count` keys, in ascending order, are below `key`; with `kOrEqual`, not
// above it. At most `count`, whatever a writer does meanwhile.
template <bool kOrEqual, typename Keys>
uint32_t CountBelow(const Keys& keys, uint32_t count, Key key) {
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

template <uint32_t kFanout>
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
      assert(filled < keys.size());
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
    Set(next, right);
    return {right->keys[0].load(std::memory_order_relaxed), right};
  }

  std::array<AtomicKey, kFanout> keys;
  std::array<std::atomic<Value>, kFanout> values;
  std::atomic<Leaf*> next = nullptr;
};

template <uint32_t kFanout>
struct Inner : Node {
  Inner() : Node(false) {}

  // The number of the child that leads to `key`.
  uint32_t ChildFor(Key key) const { return CountBelow<true>(separators, this->Count(), key); }

  bool IsFull() const { return this->Count() == kFanout - 1; }

  // Adds the right half of a child. Requires: locked, and not full.
  void Add(const Split& split) {
    const uint32_t at = ChildFor(split.separator);
    const uint32_t filled = this->Count();
    assert(filled < separators.size());
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

}  // namespace gossamer::lab::olc
