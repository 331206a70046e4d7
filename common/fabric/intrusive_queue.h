// A FIFO queue through the `next` pointers of its items, and its use by fabrics.
//
// Invariant: an item is in at most one queue, and outlives its stay there.
// Thread-safety: none. Cost: no allocation.
#pragma once

#include <cstddef>
#include <utility>

#include "common/fabric/work_request.h"

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
    if (completion != nullptr && --completion->remaining == 0 && completion->waiter) {
      completion->waiter.resume();
    }
  }
  return count;
}

}  // namespace gossamer
