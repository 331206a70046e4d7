#include "compute/lock/lock_table.h"

#include <algorithm>
#include <cassert>

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

Waiter* LockTable::Turn::EndShare(Queue& queue) {
  if (--queue.shares != 0) return nullptr;
  Waiter* const next = PopFirst(queue.waiters);
  if (next != nullptr) queue.shares = 1;
  return next;
}

void LockTable::Turn::GiveUp() {
  Queue* queue = std::exchange(queue_, nullptr);
  if (queue == nullptr) return;
  Waiter* next = nullptr;
  {
    const Guard guard(*queue);
    next = EndShare(*queue);
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
    EndShare(*queue);
  }
  while (!sent_away.empty()) Resume(sent_away.Pop(), Answer::kLookUp);
}

LockTable::ClosedPlace LockTable::Turn::Close(const LockPlace& place) {
  assert(queue_ != nullptr);
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
    next = EndShare(*queue);
  }
  while (!sent_away.empty()) Resume(sent_away.Pop(), Answer::kClosed);
  if (next != nullptr) WakeFrom(scheduler_, *next);
  return ClosedPlace(queue, {place});
}

void LockTable::OpenPlace::operator()(Queue* queue) const {
  const Guard guard(*queue);
  queue->closed.erase(std::ranges::find(queue->closed, place));
}

LockTable::Waiter* LockTable::Turn::NextAt(const LockPlace& place) {
  if (!MayHaveWaiters()) return nullptr;
  const Guard guard(*queue_);
  if (queue_->shares != 1) return nullptr;
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
    turns += queue.shares + queue.closed.size();
  }
  return turns;
}

LockTable::Turn LockTable::TryTake(const LockPlace& place, Scheduler& scheduler) {
  Queue& queue = QueueOf(place);
  const Guard guard(queue);
  if (queue.IsClosed(place) || queue.shares != 0) return Turn();
  queue.shares = 1;
  return Turn(&scheduler, &queue);
}

LockTable::Turn LockTable::Share(const Turn& turn, const LockPlace& place) {
  Queue& queue = QueueOf(place);
  if (turn.queue_ != &queue) return Turn();
  const Guard guard(queue);
  if (queue.IsClosed(place)) return Turn();
  ++queue.shares;
  return Turn(turn.scheduler_, &queue);
}

}  // namespace gossamer
