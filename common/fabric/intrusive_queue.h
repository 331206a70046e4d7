// A first-in-first-out queue through the `next` pointers of its items, and what fabrics do with it.
//
// Invariant: an item stands in at most one queue, and outlives its stay there. Thread-safety: none.
// Cost: nothing is allocated.
#pragma once

#include <cstddef>
#include <utility>

#include "common/fabric/fabric.h"

namespace gossamer {

template <typename T>
class IntrusiveQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  T& front() const { return *first_; }
  void Push(T& item) {
    item.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &item;
    last_ = &item;
  }
  T& Pop() {
    T& item = *first_;
    first_ = item.next;
    return item;
  }
  void Append(const IntrusiveQueue& others) {
    if (others.empty()) return;
    (first_ == nullptr ? first_ : last_->next) = others.first_;
    last_ = others.last_;
  }
  // Moves everything out.
  IntrusiveQueue TakeAll() { return std::exchange(*this, {}); }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;  // of a queue that is not empty
};

// Completes all batches or calls in `completing`, which have their statuses, and returns how many there were. Resumed
// coroutines may post again, and may end the lives of what they waited for: nothing is touched after its waiter ran.
// One that polls again (a synchronous call) goes on with what is left in `completing`, a member of the endpoint; so what
// ends at once, on a broken queue pair, is not put there but by the next poll.
template <typename Posted>
size_t CompleteAll(IntrusiveQueue<Posted>& completing) {
  size_t count = 0;
  while (!completing.empty()) {
    Completion* const completion = completing.Pop().completion;
    ++count;
    if (completion != nullptr && --completion->remaining == 0 && completion->waiter) {
      completion->waiter.resume();
    }
  }
  return count;
}

}  // namespace gossamer
