// Event: coroutines of one scheduler that wait until another one of them has done something.
//
// An event has no state: a coroutine tests its condition before it waits and again afterwards.
//
// Thread-safety: none. Cost: no allocation.
#pragma once

#include <coroutine>

#include "common/fabric/intrusive_queue.h"
#include "common/fabric/scheduler.h"

namespace gossamer {

class Event {
 public:
  // co_await event.Wait(): until the next `NotifyAll`.
  auto Wait() {
    struct Awaiter : std::suspend_always {
      Event& event;
      Waiter waiter;
      void await_suspend(std::coroutine_handle<> coroutine) noexcept {
        waiter.coroutine = coroutine;
        event.waiters_.Push(waiter);
      }
    };
    return Awaiter{{}, *this, {}};
  }
  // Makes all waiters ready to run, in the order in which they came. Requires (unchecked):
  // `scheduler` is that of the waiters.
  void NotifyAll(Scheduler& scheduler) {
    for (auto waiters = waiters_.TakeAll(); !waiters.empty();) {
      scheduler.MakeReady(waiters.Pop().coroutine);
    }
  }

 private:
  struct Waiter {
    std::coroutine_handle<> coroutine;
    Waiter* next = nullptr;
  };
  IntrusiveQueue<Waiter> waiters_;
};

}  // namespace gossamer
