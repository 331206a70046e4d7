// WakeList: the coroutines of one thread that other threads have woken, and the place where this
// thread sleeps until there is one.
//
// Invariant: `newest_` is null, or the list of woken coroutines, or, while the thread sleeps and
// the list is empty, the mark `asleep_`. Only the `Wake` that replaces the mark notifies the
// thread, so `Wake` costs one CAS while the thread is awake. A thread whose sleep ends in between
// waits for that notification. So once the thread has continued, no `Wake` of a coroutine it has
// taken touches this list, and the list may be destroyed.
//
// Thread-safety: any thread may call `Wake`; the rest is for the thread that owns the coroutines.
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

  // A coroutine that another thread may wake, once per suspension.
  struct Sleeper {
    std::coroutine_handle<> coroutine;
    Sleeper* next = nullptr;
    bool is_woken = false;  // written by the coroutine's own thread
  };

  // The thread that takes `sleeper` sees what was done before this call. Requires (unchecked):
  // `sleeper` lives until its coroutine continues.
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

  // Empties the list. Returns: the first woken sleeper, linked in the order of waking.
  Sleeper* TakeAll() {
    Sleeper* newest_first = newest_.exchange(nullptr, std::memory_order_acquire);
    Sleeper* in_order = nullptr;
    while (newest_first != nullptr) {
      Sleeper* next = std::exchange(newest_first->next, in_order);
      in_order = std::exchange(newest_first, next);
    }
    return in_order;
  }

  // Blocks until the list is not empty or `until` has passed.
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
    // A `Wake` has replaced the mark and will notify: wait for it.
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
