// Nodes of a B+tree in plain memory: sorted keys, and what each leads to.
//
// `Base` is the tree's own node: it has `uint32_t count` (of entries, or of separators), and the
// locks and links that the tree needs. An inner node with n children has n - 1 separators: child i
// leads to the keys k with separator[i - 1] <= k < separator[i].
//
// Thread-safety: none; the tree says who may touch a node when.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>

#include "compute/research/lab/tree.h"

namespace gossamer::lab {

template <typename Base, uint32_t kFanout, typename Payload>
struct PlainLeaf : Base {
  using Base::Base;

  uint32_t LowerBound(Key key) const {
    const auto end = keys.begin() + this->count;
    return static_cast<uint32_t>(std::lower_bound(keys.begin(), end, key) - keys.begin());
  }

  bool Has(uint32_t at, Key key) const { return at < this->count && keys[at] == key; }

  bool IsFull() const { return this->count == kFanout; }

  // Requires: the leaf is not full; `at` is the key's lower bound.
  void Add(uint32_t at, Key key, const Payload& payload) {
    assert(this->count < kFanout && at <= this->count);
    Key* const past = keys.data() + this->count;
    std::copy_backward(keys.data() + at, past, past + 1);
    Payload* const past_payload = payloads.data() + this->count;
    std::copy_backward(payloads.data() + at, past_payload, past_payload + 1);
    keys[at] = key;
    payloads[at] = payload;
    ++this->count;
  }

  // Returns: the smallest key of `upper`. Requires: `upper` is empty.
  Key MoveUpperHalf(PlainLeaf& upper) {
    assert(upper.count == 0);
    const uint32_t kept = this->count / 2;
    upper.count = this->count - kept;
    std::copy_n(keys.data() + kept, upper.count, upper.keys.data());
    std::copy_n(payloads.data() + kept, upper.count, upper.payloads.data());
    this->count = kept;
    return upper.keys[0];
  }

  std::array<Key, kFanout> keys;
  std::array<Payload, kFanout> payloads;
};

template <typename Base, uint32_t kFanout>
struct PlainInner : Base {
  static_assert(kFanout >= 4, "an inner node that splits leaves a separator in each half");
  using Base::Base;

  // The number of the child that leads to `key`.
  uint32_t ChildFor(Key key) const {
    const auto end = separators.begin() + this->count;
    return static_cast<uint32_t>(std::upper_bound(separators.begin(), end, key) -
                                 separators.begin());
  }

  bool IsFull() const { return this->count == kFanout - 1; }

  // Adds `child`, the right half of child `at`. Requires: the node is not full.
  void Add(uint32_t at, Key separator, Base* child) {
    assert(this->count < kFanout - 1 && at <= this->count);
    Key* const past = separators.data() + this->count;
    std::copy_backward(separators.data() + at, past, past + 1);
    Base** const past_child = children.data() + this->count + 1;
    std::copy_backward(children.data() + at + 1, past_child, past_child + 1);
    separators[at] = separator;
    children[at + 1] = child;
    ++this->count;
  }

  // The separator in the middle moves up. Returns: that one. Requires: `upper` is empty.
  Key MoveUpperHalf(PlainInner& upper) {
    assert(upper.count == 0);
    const uint32_t kept = this->count / 2;
    upper.count = this->count - kept - 1;
    std::copy_n(separators.data() + kept + 1, upper.count, upper.separators.data());
    std::copy_n(children.data() + kept + 1, upper.count + 1, upper.children.data());
    this->count = kept;
    return separators[kept];
  }

  std::array<Key, kFanout - 1> separators;
  std::array<Base*, kFanout> children;
};

}  // namespace gossamer::lab
