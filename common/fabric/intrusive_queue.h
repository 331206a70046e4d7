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
  // Moves everything out.
  IntrusiveQueue TakeAll() { return std::exchange(*this, {}); }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;  // of a queue that is not empty
};

// Completes all batches or calls in `ended`, which have their statuses, and returns how many there
// were. Resumed coroutines may post again and may end the lives of what they waited for: nothing is
// touched after its waiter ran, and `ended` is no queue that they can reach.
template <typename Posted>
size_t CompleteAll(IntrusiveQueue<Posted> ended) {
  size_t count = 0;
  while (!ended.empty()) {
    Completion* const completion = ended.Pop().completion;
    ++count;
    if (completion != nullptr && --completion->remaining == 0 && completion->waiter) {
      completion->waiter.resume();
    }
  }
  return count;
}

}  // namespace gossamer
