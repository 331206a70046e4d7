// A FIFO queue through a pointer in its items, and its use by fabrics.
//
// Invariant: an item is in at most one queue through each of its pointers, and outlives its stay
// there.
// Thread-safety: none. Cost: no allocation.
#pragma once

#include <cassert>
#include <cstddef>
#include <utility>

#include "common/fabric/work_request.h"

namespace gossamer {

template <typename T, T* T::* Next = &T::next>
class IntrusiveQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  // Null if the queue is empty.
  T* first() const { return first_; }
  void Push(T& item) {
    item.*Next = nullptr;
    (first_ == nullptr ? first_ : last_->*Next) = &item;
    last_ = &item;
  }
  // Requires: the queue is not empty.
  T& Pop() {
    assert(!empty());
    T& item = *first_;
    first_ = item.*Next;
    return item;
  }
  void Append(const IntrusiveQueue& others) {
    if (others.empty()) return;
    (first_ == nullptr ? first_ : last_->*Next) = others.first_;
    last_ = others.last_;
  }
  // Puts `others` ahead of these. Requires (unchecked): `others` is not used afterwards.
  void Prepend(IntrusiveQueue others) {
    others.Append(*this);
    *this = others;
  }
  // Moves everything out.
  IntrusiveQueue TakeAll() { return std::exchange(*this, {}); }
  // Moves items from the front to the end of `into` while match(item) holds, at most `limit`.
  template <typename Match>
  void TakeFront(Match&& match, size_t limit, IntrusiveQueue& into) {
    while (limit-- != 0 && first_ != nullptr && match(*first_)) into.Push(Pop());
  }
  void Remove(const T& item) {
    for (IntrusiveQueue all = TakeAll(); !all.empty();) {
      T& one = all.Pop();
      if (&one != &item) Push(one);
    }
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;  // valid if the queue is not empty
};

// Completes all batches or calls in `completing`, whose statuses are set. Returns: their number.
// Resumed coroutines may post again and may destroy what they waited for: an item is not touched
// after its waiter ran. A coroutine that polls recursively (a synchronous call) continues with the
// rest of `completing`, a member of the endpoint. So items that end at once, on a broken queue
// pair, are put there only by the next poll.
template <typename Posted>
size_t CompleteAll(IntrusiveQueue<Posted>& completing) {
  size_t count = 0;
  while (!completing.empty()) {
    Completion* const completion = completing.Pop().completion;
    ++count;
    if (completion != nullptr) completion->CountDown();
  }
  return count;
}

}  // namespace gossamer
