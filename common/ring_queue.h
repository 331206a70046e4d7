// RingQueue: a FIFO queue in memory that it keeps.
//
// Unlike std::deque, which allocates and frees blocks as it moves through memory, this allocates
// only when it holds more than ever before, and then doubles.
// Thread-safety: none.
#pragma once

#include <cassert>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

namespace gossamer {

template <typename T>
class RingQueue {
  static_assert(std::is_trivially_copyable_v<T>, "slots are copied, and not destroyed");

 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  // Makes room, so that up to `items` need no allocation.
  void Reserve(size_t items) {
    while (slots_.size() < items) Grow();
  }
  void PushBack(T item) {
    if (size_ == slots_.size()) Grow();
    slots_[Slot(size_++)] = item;
  }
  // Requires: the queue is not empty.
  const T& front() const {
    assert(!empty());
    return slots_[first_];
  }
  // Requires: the queue is not empty.
  T PopFront() {
    assert(!empty());
    const T item = slots_[first_];
    first_ = Slot(1);
    --size_;
    return item;
  }

 private:
  static constexpr size_t kFirstSlots = 16;

  // The slot of the item `place` places behind the first. The number of slots is a power of two.
  size_t Slot(size_t place) const { return (first_ + place) & (slots_.size() - 1); }
  void Grow() {
    std::vector<T> larger(slots_.empty() ? kFirstSlots : 2 * slots_.size());
    for (size_t i = 0; i < size_; ++i) larger[i] = slots_[Slot(i)];
    slots_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> slots_;
  size_t first_ = 0;
  size_t size_ = 0;
};

}  // namespace gossamer
