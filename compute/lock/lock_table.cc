#include "compute/lock/lock_table.h"

#include <algorithm>

namespace gossamer {
namespace {

using Waiter = LockTable::Waiter;

// The waiter's coroutine may run, and the waiter be gone, as soon as its own thread knows.
void WakeFrom(const Scheduler* here, Waiter& waiter) {
  Scheduler* const scheduler = waiter.scheduler;
  if (scheduler == here) {
    scheduler->MakeReady(waiter.coroutine);
  } else {
    scheduler->Wake(waiter);
  }
}

}  // namespace

void LockTable::Turn::GiveUp() {
  Queue* queue = std::exchange(queue_, nullptr);
  if (queue == nullptr) return;
  Waiter* next = nullptr;
  {
    const Guard guard(*queue);
    next = queue->waiters.PopFront();
    queue->taken = next != nullptr;
    queue->closed = false;
  }
  if (next != nullptr) WakeFrom(scheduler_, *next);
}

void LockTable::Turn::Disband() {
  Queue* queue = std::exchange(queue_, nullptr);
  if (queue == nullptr) return;
  WaiterList sent_away;
  {
    const Guard guard(*queue);
    std::swap(sent_away, queue->waiters);
    queue->taken = false;
  }
  while (Waiter* waiter = sent_away.PopFront()) Resume(*waiter, Answer::kLookUp);
}

void LockTable::Turn::Close() {
  WaiterList sent_away;
  {
    const Guard guard(*queue_);
    std::swap(sent_away, queue_->waiters);
    queue_->closed = true;
  }
  while (Waiter* waiter = sent_away.PopFront()) Resume(*waiter, Answer::kClosed);
}

LockTable::Waiter* LockTable::Turn::NextAt(const LockPlace& place) {
  const Guard guard(*queue_);
  Waiter* waiter = queue_->waiters.first();
  while (waiter != nullptr && waiter->place != place) waiter = waiter->behind;
  return waiter;
}

void LockTable::Turn::HandOver(Waiter& next, const HeldLock& held) {
  Queue* queue = std::exchange(queue_, nullptr);
  {
    const Guard guard(*queue);
    queue->waiters.Remove(next);
  }
  next.held = held;
  WakeFrom(scheduler_, next);
}

void LockTable::Turn::PutBack(const WaiterList& waiters) {
  if (waiters.first() == nullptr) return;  // The usual case: without the guard.
  const Guard guard(*queue_);
  queue_->waiters.Prepend(waiters);
}

void LockTable::Turn::Resume(Waiter& waiter, Answer answer) const {
  waiter.answer = answer;
  WakeFrom(scheduler_, waiter);
}

size_t LockTable::CountTurns() {
  return static_cast<size_t>(std::ranges::count_if(queues_, [](Queue& queue) {
    const Guard guard(queue);
    return queue.taken;
  }));
}

LockTable::Turn LockTable::TryTake(const LockPlace& place, Scheduler& scheduler) {
  Queue& queue = QueueOf(place);
  const Guard guard(queue);
  if (std::exchange(queue.taken, true)) return Turn();
  return Turn(&scheduler, &queue);
}

}  // namespace gossamer
