// LockTable: the local half of a compute server's hierarchical locks (Sherman, SIGMOD'22, 4.3).
//
// All coroutines of all threads that want one remote lock queue here, first come first served. Only
// the one with the *turn* contends remotely. It may
//   - take waiters out of the queue and do what they wish along with its own work;
//   - hand the turn over with the remote lock still held, after its own WRITE has completed (rule
//     L3), so that the next coroutine posts no CAS;
//   - give the turn up, after it released the remote lock or never had it.
// No coroutine waits for a turn while it has one, and no holder of a remote lock waits: no
// deadlock. Callers bound how often in a row they hand a remote lock over, so that other compute
// servers get it too.
//
// Places, the slots of the memory servers' lock tables, are hashed to a fixed number of queues.
// Places that share a queue only wait for each other: no remote lock passes between them. An
// operation that needs several locks at a time shares its turn between those places: the turn ends
// when all its shares have ended.
//
// A place is closed while it is unknown whether its lock is held (rule U5). No coroutine gets a
// turn there; other places of the queue are unaffected.
//
// Thread-safety: thread-safe. A coroutine continues in its own thread, when its scheduler resumes
// it: a session with operations under way must be polled.
// Cost: a spin lock, held for a few pointer writes. Only closing a place allocates.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/fabric/intrusive_queue.h"
#include "common/fabric/scheduler.h"
#include "proto/lock_word.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// A slot of a memory server's lock table.
struct LockPlace {
  ServerId server{0};
  uint64_t slot = 0;  // byte offset

  friend bool operator==(const LockPlace&, const LockPlace&) = default;
};

// A remote lock that is held. Any holder releases it from exactly `word` (rule L1).
struct HeldLock {
  LockWord word;  // free: none is held
  uint32_t handovers = 0;

  explicit operator bool() const { return !word.is_free(); }
};

class LockTable {
 public:
  // Beside 128 leaves in flight, a further one finds its queue taken once in 128 times, and is then
  // written by itself. With a quarter of the queues, an MSET takes an eighth more time.
  static constexpr size_t kQueues = 16384;

  // What a waiter wants done to a node. The holder of the turn may do it.
  struct Wish {
    RemotePtr node;
  };

  enum class Answer : uint8_t {
    kTurn,    // the waiter has the turn; `held` is the remote lock that came with it
    kLookUp,  // look the node up again: it may have split
    kDone,    // another holder of the turn did what was wished
    kClosed,  // the place is closed
  };

  struct Waiter : Scheduler::Sleeper {
    using Sleeper::Sleeper;

    LockPlace place;
    Wish* wish = nullptr;
    Answer answer = Answer::kTurn;
    HeldLock held;
    Waiter* behind = nullptr;
  };

  using WaiterList = IntrusiveQueue<Waiter, &Waiter::behind>;

 private:
  struct alignas(64) Queue {
    std::atomic<bool> busy = false;  // guards the rest
    // Whether there were waiters when the guard was last given back. The holder of the turn may
    // read it without the guard: a waiter that it misses is seen when the turn ends.
    std::atomic<bool> has_waiters = false;
    uint32_t shares = 0;  // of the turn
    WaiterList waiters;
    std::vector<LockPlace> closed;  // no turn is given at these

    bool IsClosed(const LockPlace& place) const {
      return !closed.empty() && std::ranges::find(closed, place) != closed.end();
    }
  };
  class Guard {
   public:
    explicit Guard(Queue& queue) : queue_(queue) {
      // The holder may have been preempted.
      while (queue_.busy.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() {
      queue_.has_waiters.store(!queue_.waiters.empty(), std::memory_order_relaxed);
      queue_.busy.store(false, std::memory_order_release);
    }

   private:
    Queue& queue_;
  };

 public:
  struct OpenPlace {
    LockPlace place;
    void operator()(Queue* queue) const;
  };
  // Keeps a place closed while it lives.
  using ClosedPlace = std::unique_ptr<Queue, OpenPlace>;

  // A turn, until it is given up, handed over or destroyed.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept
        : scheduler_(other.scheduler_), queue_(std::exchange(other.queue_, nullptr)) {}
    Turn& operator=(Turn&& other) noexcept {
      const Turn ended(std::move(*this));
      scheduler_ = other.scheduler_;
      queue_ = std::exchange(other.queue_, nullptr);
      return *this;
    }
    ~Turn() { GiveUp(); }
    explicit operator bool() const { return queue_ != nullptr; }

    // The first waiter gets the turn.
    void GiveUp();
    // Ends the turn and the queue: all waiters, in order, get kLookUp.
    void Disband();
    // Ends the turn. All waiters for `place`, present and future, get kClosed while the result
    // lives. Other waiters of the queue are unaffected. Allocates.
    // Requires: this is a turn at `place`.
    [[nodiscard]] ClosedPlace Close(const LockPlace& place);

    // Returns the first waiter for `place`, or null, also if the turn is shared. It stays in the
    // queue until this turn ends.
    Waiter* NextAt(const LockPlace& place);
    // Gives the turn and the remote lock `held` to `next`, which NextAt returned.
    void HandOver(Waiter& next, const HeldLock& held);

    // Takes waiters with a wish for `node` from the front of the queue, at most `limit`. Stops at
    // the first other waiter, which would otherwise never get its turn.
    WaiterList TakeWishes(RemotePtr node, size_t limit) {
      WaiterList taken;
      if (!MayHaveWaiters()) return taken;
      const Guard guard(*queue_);
      queue_->waiters.TakeFront(
          [node](const Waiter& waiter) {
            return waiter.wish != nullptr && waiter.wish->node == node;
          },
          limit, taken);
      return taken;
    }
    // Calls visit(wish) for each wish for `node` in the queue.
    template <typename Visit>
    void ForEachWish(RemotePtr node, Visit&& visit) {
      if (!MayHaveWaiters()) return;
      const Guard guard(*queue_);
      for (Waiter* waiter = queue_->waiters.first(); waiter != nullptr; waiter = waiter->behind) {
        if (waiter->wish != nullptr && waiter->wish->node == node) visit(*waiter->wish);
      }
    }
    // Puts taken waiters back at the head of the queue.
    void PutBack(const WaiterList& waiters);
    // Resumes a taken waiter.
    void Resume(Waiter& waiter, Answer answer) const;

   private:
    friend class LockTable;
    Turn(Scheduler* scheduler, Queue* queue) : scheduler_(scheduler), queue_(queue) {}

    // Ends this share. Returns the waiter that gets the turn now, or null. Requires (unchecked):
    // the queue's guard.
    static Waiter* EndShare(Queue& queue);
    bool MayHaveWaiters() const { return queue_->has_waiters.load(std::memory_order_relaxed); }

    Scheduler* scheduler_ = nullptr;
    Queue* queue_ = nullptr;
  };

  // co_await table.Wait(waiter, turn): waits for waiter.answer. With kTurn, `turn` is the caller's.
  // The caller sets place and wish. Other threads may use `waiter` and what its wish
  // refers to meanwhile.
  auto Wait(Waiter& waiter, Turn& turn) {
    struct Awaiter {
      Queue& queue;
      Waiter& waiter;
      Turn& turn;

      bool await_ready() const noexcept { return false; }
      bool await_suspend(std::coroutine_handle<> coroutine) noexcept {
        waiter.coroutine = coroutine;
        waiter.answer = Answer::kTurn;
        waiter.held = {};
        const Guard guard(queue);
        const bool is_closed = queue.IsClosed(waiter.place);
        if (is_closed) waiter.answer = Answer::kClosed;
        if (is_closed) return false;
        if (queue.shares == 0) {
          queue.shares = 1;
          return false;
        }
        queue.waiters.Push(waiter);
        return true;
      }
      void await_resume() noexcept {
        if (waiter.answer == Answer::kTurn) turn = Turn(&waiter.scheduler, &queue);
      }
    };
    return Awaiter{QueueOf(waiter.place), waiter, turn};
  }
  // Loads what TryTake needs.
  void Prefetch(const LockPlace& place) { __builtin_prefetch(&QueueOf(place), 1); }
  // Returns the turn at `place`; an empty one if it is taken or the place is closed.
  Turn TryTake(const LockPlace& place, Scheduler& scheduler);
  // Returns a share of `turn` at `place`; an empty one if that is no place of the turn's queue, or
  // closed.
  Turn Share(const Turn& turn, const LockPlace& place);
  // For tests: the number of turns taken and places closed, 0 while nothing runs. Slow.
  size_t CountTurns();
  bool IsClosed(const LockPlace& place) {
    Queue& queue = QueueOf(place);
    const Guard guard(queue);
    return queue.IsClosed(place);
  }
  // Whether `turn` is a turn at `place`. It is one at every open place of its queue.
  bool IsAt(const Turn& turn, const LockPlace& place) {
    return turn.queue_ == &QueueOf(place) && !IsClosed(place);
  }

 private:
  Queue& QueueOf(const LockPlace& place) {
    return queues_[(place.slot / sizeof(uint64_t) + ToInteger(place.server) * 1637) % kQueues];
  }

  std::array<Queue, kQueues> queues_;
};

}  // namespace gossamer
