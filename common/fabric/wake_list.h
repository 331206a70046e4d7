// WakeList: the coroutines of one thread that other threads have woken, and where this thread sleeps until there is one.
//
// Invariant: `newest_` is null, the list of those woken, or, while the thread sleeps and nobody has been woken, its own
// mark. A `Wake` that replaces the mark calls the thread, and no other does, so that a `Wake` costs one CAS where the
// thread is awake. A thread that was woken in between waits for that call: once it has gone on, no `Wake` of a coroutine
// that it has taken touches this list any more, which may come to its end.
//
// Thread-safety: `Wake` is for all threads, the rest for the thread that the coroutines belong to.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <mutex>
#include <optional>
#include <utility>

namespace gossamer {

class WakeList {
 public:
  using Clock = std::chrono::steady_clock;

  // A coroutine that another thread may wake: once, until it has run.
  struct Sleeper {
    std::coroutine_handle<> coroutine;
    Sleeper* next = nullptr;
  };

  // `sleeper` lives until its coroutine goes on. What was done before is seen by the thread that takes it.
  void Wake(Sleeper& sleeper) {
    Sleeper* before = newest_.load(std::memory_order_relaxed);
    do {
      sleeper.next = before == &asleep_ ? nullptr : before;
    } while (!newest_.compare_exchange_weak(before, &sleeper, std::memory_order_release,
                                            std::memory_order_relaxed));
    if (before != &asleep_) return;
    const std::lock_guard guard(mutex_);
    is_called_ = true;
    call_.notify_one();
  }

  bool empty() const { return newest_.load(std::memory_order_relaxed) == nullptr; }

  // Empties the list: the first of those woken, in the order in which they were.
  Sleeper* TakeAll() {
    Sleeper* newest_first = newest_.exchange(nullptr, std::memory_order_acquire);
    Sleeper* in_order = nullptr;
    while (newest_first != nullptr) {
      Sleeper* next = std::exchange(newest_first->next, in_order);
      in_order = std::exchange(newest_first, next);
    }
    return in_order;
  }

  // Blocks until the list is not empty, or until then.
  void Sleep(std::optional<Clock::time_point> until) {
    Sleeper* mark = nullptr;
    if (!newest_.compare_exchange_strong(mark, &asleep_, std::memory_order_relaxed)) return;
    std::unique_lock lock(mutex_);
    const auto is_called = [this] { return is_called_; };
    if (until) {
      call_.wait_until(lock, *until, is_called);
    } else {
      call_.wait(lock, is_called);
    }
    mark = &asleep_;
    // Replaced, and not called yet: it will be.
    const bool is_late =
        !is_called_ && !newest_.compare_exchange_strong(mark, nullptr, std::memory_order_relaxed);
    if (is_late) call_.wait(lock, is_called);
    is_called_ = false;
  }

 private:
  std::atomic<Sleeper*> newest_ = nullptr;
  Sleeper asleep_;  // the mark
  std::mutex mutex_;
  std::condition_variable call_;
  bool is_called_ = false;  // guarded by mutex_
};

}  // namespace gossamer
