#include "compute/lock/lock_table.h"

#include <algorithm>

namespace gossamer {
namespace {

using Waiter = LockTable::Waiter;

// Null if the queue is empty.
Waiter* PopFirst(LockTable::WaiterList& waiters) {
  return waiters.empty() ? nullptr : &waiters.Pop();
}

// Once woken, the waiter's coroutine may run in its own thread and destroy the waiter.
void WakeFrom(const Scheduler* here, Waiter& waiter) {
  if (&waiter.scheduler == here) {
    waiter.scheduler.MakeReady(waiter.coroutine);
  } else {
    Scheduler::Wake(waiter);
  }
}

}  // namespace

void LockTable::Turn::GiveUp() {
  Queue* queue = std::exchange(queue_, nullptr);
  if (queue == nullptr) return;
  Waiter* next = nullptr;
  {
    const Guard guard(*queue);
    next = PopFirst(queue->waiters);
    queue->taken = next != nullptr;
  }
  if (next != nullptr) WakeFrom(scheduler_, *next);
}

void LockTable::Turn::Disband() {
  Queue* queue = std::exchange(queue_, nullptr);
  if (queue == nullptr) return;
  WaiterList sent_away;
  {
    const Guard guard(*queue);
    sent_away = queue->waiters.TakeAll();
    queue->taken = false;
  }
  while (!sent_away.empty()) Resume(sent_away.Pop(), Answer::kLookUp);
}

LockTable::ClosedPlace LockTable::Turn::Close(const LockPlace& place) {
  Queue* const queue = std::exchange(queue_, nullptr);
  WaiterList sent_away;
  Waiter* next = nullptr;
  {
    const Guard guard(*queue);
    queue->closed.push_back(place);
    for (WaiterList all = queue->waiters.TakeAll(); !all.empty();) {
      Waiter& waiter = all.Pop();
      (waiter.place == place ? sent_away : queue->waiters).Push(waiter);
    }
    next = PopFirst(queue->waiters);
    queue->taken = next != nullptr;
  }
  while (!sent_away.empty()) Resume(sent_away.Pop(), Answer::kClosed);
  if (next != nullptr) WakeFrom(scheduler_, *next);
  return ClosedPlace(queue, place);
}

LockTable::ClosedPlace::~ClosedPlace() {
  if (queue_ == nullptr) return;
  const Guard guard(*queue_);
  queue_->closed.erase(std::ranges::find(queue_->closed, place_));
}

LockTable::Waiter* LockTable::Turn::NextAt(const LockPlace& place) {
  if (!MayHaveWaiters()) return nullptr;
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
  if (waiters.empty()) return;  // The usual case: without the guard.
  const Guard guard(*queue_);
  queue_->waiters.Prepend(waiters);
}

void LockTable::Turn::Resume(Waiter& waiter, Answer answer) const {
  waiter.answer = answer;
  WakeFrom(scheduler_, waiter);
}

size_t LockTable::CountTurns() {
  size_t turns = 0;
  for (Queue& queue : queues_) {
    const Guard guard(queue);
    turns += (queue.taken ? 1 : 0) + queue.closed.size();
  }
  return turns;
}

LockTable::Turn LockTable::TryTake(const LockPlace& place, Scheduler& scheduler) {
  Queue& queue = QueueOf(place);
  const Guard guard(queue);
  if (queue.IsClosed(place) || std::exchange(queue.taken, true)) return Turn();
  return Turn(&scheduler, &queue);
}

}  // namespace gossamer
