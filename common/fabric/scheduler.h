// Scheduler: runs the coroutines of one thread over one endpoint.
//
// Invariant: only this class, through `Endpoint::Poll` or its timers, resumes a spawned task. So
// tasks of one scheduler never run concurrently.
// `RunOnce` never blocks. `Run`, `RunUntil` and `RunWhile` spin for as long as events usually take,
// then sleep until the next timer is due or another thread wakes a task.
//
// Cost: spawning takes a frame from the pool; nothing else allocates in the steady state.
// Thread-safety: `Wake` may be called by any thread, everything else by the owning thread only.
#pragma once

#include <algorithm>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/fabric/endpoint.h"
#include "common/fabric/wake_list.h"
#include "common/ring_queue.h"
#include "common/task.h"

namespace gossamer {

class Scheduler {
 public:
  using Clock = Endpoint::Clock;

  // A coroutine of `scheduler` that another thread may wake, once per suspension.
  struct Sleeper : WakeList::Sleeper {
    explicit Sleeper(Scheduler& own) : scheduler(own) {}

    Scheduler& scheduler;
  };

  explicit Scheduler(Endpoint& endpoint) : endpoint_(endpoint) {}
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  Endpoint& endpoint() { return endpoint_; }
  Clock::time_point Now() const { return endpoint_.Now(); }
  // Tasks spawned and not yet ended.
  size_t running() const { return running_; }

  // Starts `task`. It runs until it first waits, then continues in `RunOnce`.
  void Spawn(Task<void> task) {
    ++running_;
    Drive(std::move(task));
  }

  // One round of completions and timers. Returns: whether anything happened. After many idle
  // rounds, each round yields the processor: with fewer processors than polling threads, the
  // awaited event may need it (SoftRoCE, or the holder of a lock).
  bool RunOnce() {
    bool progress = endpoint_.Poll() != 0;
    if (!woken_.empty()) TakeWoken();
    // Only what is ready by now. A synchronous call in a coroutine may re-enter here meanwhile.
    for (size_t count = ready_.size(); count != 0 && !ready_.empty(); --count) {
      ready_.PopFront().resume();
      progress = true;
    }
    if (!timers_.empty()) {
      const Clock::time_point now = endpoint_.Now();
      while (!timers_.empty() && timers_.front().due <= now) {
        const std::coroutine_handle<> waiter = timers_.front().waiter;
        std::pop_heap(timers_.begin(), timers_.end());
        timers_.pop_back();
        waiter.resume();
        progress = true;
      }
    }
    idle_rounds_ = progress ? 0 : idle_rounds_ + 1;
    if (idle_rounds_ > kIdleRounds) endpoint_.Yield();
    return progress;
  }

  // Runs as long as goes_on() is true. Only this scheduler's tasks may change it.
  template <typename Condition>
  void RunWhile(Condition goes_on) {
    while (goes_on()) {
      if (!RunOnce()) SleepIfIdle();
    }
  }

  // Runs until at most `limit` tasks are left.
  void RunUntil(size_t limit) {
    RunWhile([this, limit] { return running_ > limit; });
  }

  // Runs `task` to its end together with all other spawned tasks. Returns: its value.
  template <typename T>
  T Run(Task<T> task) {
    RunUntilDone(task.handle());
    return task.Take();
  }
  // The same for a coroutine that has not started, and is still there when it is done.
  void RunUntilDone(std::coroutine_handle<> task) {
    task.resume();
    RunWhile([task] { return !task.done(); });
  }

  // Resumes `waiter` in the next `RunOnce`, behind those made ready before it.
  void MakeReady(std::coroutine_handle<> waiter) {
    ready_.PushBack(waiter);
    endpoint_.WakeAt(Clock::time_point::min());
  }
  // Likewise in the sleeper's scheduler, from any thread. The coroutine sees what was done before
  // the call. Requires (unchecked): `sleeper` lives until its coroutine continues.
  static void Wake(Sleeper& sleeper) {
    Scheduler& own = sleeper.scheduler;
    // WakeAt first: once the coroutine is woken, its scheduler and its endpoint may be destroyed.
    own.endpoint_.WakeAt(Clock::time_point::min());
    own.woken_.Wake(sleeper);
  }

  // co_await scheduler.NextRound(): goes on in the next `RunOnce`, behind the tasks that are ready.
  auto NextRound() {
    struct Awaiter : std::suspend_always {
      Scheduler& scheduler;
      void await_suspend(std::coroutine_handle<> waiter) { scheduler.MakeReady(waiter); }
    };
    return Awaiter{{}, *this};
  }
  // co_await scheduler.SleepFor(50us): other tasks run meanwhile.
  auto SleepFor(std::chrono::nanoseconds duration) {
    struct Awaiter : std::suspend_always {
      Scheduler& scheduler;
      std::chrono::nanoseconds duration;
      void await_suspend(std::coroutine_handle<> waiter) { scheduler.StartTimer(duration, waiter); }
    };
    return Awaiter{{}, *this, duration};
  }
  // co_await Scheduler::SleepUntilWoken(sleeper, 200ms): until `Wake(sleeper)`, or for that time.
  // Returns: whether it was woken. If not, the caller makes sure that no thread calls `Wake` any
  // more, or awaits SleepUntilWoken(sleeper).
  static auto SleepUntilWoken(Sleeper& sleeper,
                              std::optional<std::chrono::nanoseconds> at_most = std::nullopt) {
    struct Awaiter {
      Sleeper& sleeper;
      std::optional<std::chrono::nanoseconds> at_most;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> waiter) {
        sleeper.coroutine = waiter;
        sleeper.is_woken = false;
        if (at_most) sleeper.scheduler.StartTimer(*at_most, waiter);
      }
      bool await_resume() const {
        if (sleeper.is_woken && at_most) sleeper.scheduler.CancelTimer(sleeper.coroutine);
        return sleeper.is_woken;
      }
    };
    return Awaiter{sleeper, at_most};
  }

 private:
  // Some microseconds: longer than a round trip on hardware.
  static constexpr uint32_t kIdleRounds = 256;
  // A millisecond or two: longer than another thread usually holds the lock that a task waits for.
  // Waking a thread takes tens of microseconds.
  static constexpr uint32_t kIdleRoundsWithoutTimer = 4096;
  // Spin for timers that are due sooner: the machine may wake us late by a fourth of this.
  static constexpr std::chrono::microseconds kShortestSleep{200};

  struct Timer {
    Clock::time_point due;
    std::coroutine_handle<> waiter;
    // The heap's order: a later timer is less.
    friend bool operator<(const Timer& a, const Timer& b) { return b.due < a.due; }
  };

  void StartTimer(std::chrono::nanoseconds duration, std::coroutine_handle<> waiter) {
    const Clock::time_point due = endpoint_.Now() + duration;
    timers_.push_back({due, waiter});
    std::push_heap(timers_.begin(), timers_.end());
    endpoint_.WakeAt(due);
  }
  void CancelTimer(std::coroutine_handle<> waiter) {
    std::erase_if(timers_, [waiter](const Timer& timer) { return timer.waiter == waiter; });
    std::make_heap(timers_.begin(), timers_.end());
  }

  void TakeWoken() {
    for (WakeList::Sleeper* woken = woken_.TakeAll(); woken != nullptr; woken = woken->next) {
      woken->is_woken = true;
      ready_.PushBack(woken->coroutine);
    }
  }

  // Call after a round in which nothing happened.
  void SleepIfIdle() {
    if (idle_rounds_ <= kIdleRounds || !endpoint_.IsIdle()) return;
    if (timers_.empty()) {
      if (idle_rounds_ > kIdleRoundsWithoutTimer) woken_.Sleep({});
    } else if (timers_.front().due - endpoint_.Now() >= kShortestSleep) {
      woken_.Sleep(timers_.front().due);
    }
  }

  internal::Detached Drive(Task<void> task) {
    co_await task;
    --running_;
  }

  Endpoint& endpoint_;
  size_t running_ = 0;
  uint32_t idle_rounds_ = 0;
  std::vector<Timer> timers_;  // a heap: the next that is due is first
  RingQueue<std::coroutine_handle<>> ready_;
  WakeList woken_;
};

}  // namespace gossamer
