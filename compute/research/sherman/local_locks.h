// LocalLocks: the local half of a compute server's hierarchical locks (Sherman's HOCL).
//
// One local lock for each lock of the memory servers' lock tables, with a queue: the compute
// server's coroutines take it first come, first served, and only its holder contends for the remote
// lock. The holder hands the remote lock over with the local one while others wait here, at most
// kMostHandovers times in a row, so that other compute servers get it, too.
//
// A coroutine holds at most one lock at a time: no deadlock.
//
// Thread-safety: thread-safe. A waiter continues in its own thread, when its scheduler runs.
// Cost: a spin lock, held for a few pointer writes; no allocation.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "common/fabric/intrusive_queue.h"
#include "common/fabric/scheduler.h"
#include "proto/remote_ptr.h"

namespace gossamer::sherman {

// A lock of a memory server's lock table.
struct LockPlace {
  ServerId server{0};
  uint64_t offset = 0;  // of its word, in bytes
};

class LocalLocks {
 public:
  static constexpr uint32_t kMostHandovers = 4;  // MAX_DEPTH

  // Of a coroutine that takes a lock. Lives until it has it.
  struct Waiter : Scheduler::Sleeper {
    using Sleeper::Sleeper;

    bool has_remote = false;  // the remote lock came with the local one
    Waiter* behind = nullptr;
  };

  // Adds the locks of a memory server. Requires (unchecked): no coroutine runs.
  void AddServer(ServerId server, uint64_t lock_table_bytes);

  // co_await locks.Take(place, waiter): waits for the local lock. Returns whether the remote lock
  // came with it.
  auto Take(LockPlace place, Waiter& waiter) {
    struct Awaiter {
      Lock& lock;
      Waiter& waiter;

      bool await_ready() const noexcept { return false; }
      bool await_suspend(std::coroutine_handle<> coroutine) noexcept {
        waiter.coroutine = coroutine;
        const Guard guard(lock);
        if (lock.is_taken) {
          lock.waiters.Push(waiter);
          return true;
        }
        lock.is_taken = true;
        return false;
      }
      bool await_resume() const noexcept { return waiter.has_remote; }
    };
    return Awaiter{LockAt(place), waiter};
  }
  // Whether the holder is to hand the remote lock over. That stays so: waiters do not go away.
  bool HandsOver(LockPlace place);
  // Gives the local lock to the first waiter, if there is one, with the remote lock or without.
  // Requires: with `hands_over`, HandsOver was true.
  void Release(LockPlace place, bool hands_over);

 private:
  struct Lock {
    std::atomic<bool> busy = false;  // guards the rest
    bool is_taken = false;
    uint32_t handovers = 0;  // in a row
    IntrusiveQueue<Waiter, &Waiter::behind> waiters;
  };
  class Guard {
   public:
    explicit Guard(Lock& lock) : lock_(lock) {
      // The holder may have been preempted.
      while (lock_.busy.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { lock_.busy.store(false, std::memory_order_release); }

   private:
    Lock& lock_;
  };

  Lock& LockAt(LockPlace place) {
    return tables_[ToInteger(place.server)][place.offset / sizeof(uint64_t)];
  }

  std::vector<std::unique_ptr<Lock[]>> tables_;  // by server id
};

}  // namespace gossamer::sherman
