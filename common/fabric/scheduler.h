// Scheduler: runs the coroutines of one thread over one endpoint.
//
// Invariant: every spawned task is resumed only from here, by `Endpoint::Poll` or by its timer, so
// that tasks of one scheduler never run at the same time. Cost: spawning takes a frame from the
// pool; nothing else allocates in the steady state. Thread-safety: none; it belongs to its thread.
#pragma once

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <optional>
#include <queue>
#include <thread>
#include <utility>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/task.h"

namespace gossamer {

class Scheduler {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Scheduler(Endpoint& endpoint) : endpoint_(endpoint) {}
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  Endpoint& endpoint() { return endpoint_; }
  // Tasks spawned and not yet ended.
  size_t running() const { return running_; }

  // Starts `task`; it runs until it first waits, then goes on in `RunOnce`.
  void Spawn(Task<void> task) {
    ++running_;
    Drive(std::move(task));
  }

  // One round of completions and timers. Returns whether anything happened. After many rounds in
  // which nothing did, each lets other threads have the processor: where there are fewer of them
  // than threads that poll, what is waited for may need it (SoftRoCE, or the holder of a lock).
  bool RunOnce() {
    bool progress = endpoint_.Poll() != 0;
    // Those that are ready by now; a coroutine that calls synchronously gets here again meanwhile.
    for (size_t count = ready_.size(); count != 0 && !ready_.empty(); --count) {
      const std::coroutine_handle<> waiter = ready_.front();
      ready_.pop_front();
      waiter.resume();
      progress = true;
    }
    if (!timers_.empty()) {
      const Clock::time_point now = Clock::now();
      while (!timers_.empty() && timers_.top().due <= now) {
        const std::coroutine_handle<> waiter = timers_.top().waiter;
        timers_.pop();
        waiter.resume();
        progress = true;
      }
    }
    idle_rounds_ = progress ? 0 : idle_rounds_ + 1;
    if (idle_rounds_ > kIdleRounds) std::this_thread::yield();
    return progress;
  }

  // Runs until at most `limit` tasks are left.
  void RunUntil(size_t limit) {
    while (running_ > limit) RunOnce();
  }

  // Runs `task` to its end, along with whatever else was spawned, and returns its value.
  template <typename T>
  T Run(Task<T> task) {
    std::optional<T> value;
    bool done = false;
    Capture(std::move(task), value, done);
    while (!done) RunOnce();
    return std::move(*value);
  }

  // Resumes `waiter` in the next `RunOnce`, behind those made ready before it.
  void MakeReady(std::coroutine_handle<> waiter) { ready_.push_back(waiter); }

  // co_await scheduler.SleepFor(50us): lets others run meanwhile.
  auto SleepFor(std::chrono::nanoseconds duration) {
    struct Awaiter {
      Scheduler& scheduler;
      std::chrono::nanoseconds duration;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> waiter) {
        scheduler.timers_.push({Clock::now() + duration, waiter});
      }
      void await_resume() const noexcept {}
    };
    return Awaiter{*this, duration};
  }

 private:
  // Some microseconds: longer than a round trip on hardware.
  static constexpr uint32_t kIdleRounds = 256;

  struct Timer {
    Clock::time_point due;
    std::coroutine_handle<> waiter;
    friend bool operator<(const Timer& a, const Timer& b) { return a.due > b.due; }
  };

  internal::Detached Drive(Task<void> task) {
    co_await task;
    --running_;
  }

  template <typename T>
  internal::Detached Capture(Task<T> task, std::optional<T>& value, bool& done) {
    value.emplace(co_await task);
    done = true;
  }

  Endpoint& endpoint_;
  size_t running_ = 0;
  uint32_t idle_rounds_ = 0;
  std::priority_queue<Timer> timers_;
  std::deque<std::coroutine_handle<>> ready_;
};

}  // namespace gossamer
