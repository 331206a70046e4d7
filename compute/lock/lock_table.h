// LockTable: the local half of a compute server's hierarchical locks (design section 6; Sherman, SIGMOD'22, 4.3).
//
// All coroutines of all threads that want one remote lock queue here, first come first served: only the one whose turn
// it is contends remotely. Whoever has the turn
//   - gives it up, having released the remote lock, or never had it;
//   - hands it over with the remote lock still held, after its own WRITE has completed (rule L3), so that the next
//     posts no CAS;
//   - or takes waiters out of the queue, and does what they wish along with its own work.
// Nobody waits for a turn while having one, and who holds a remote lock waits for nobody: no deadlock. How often in a
// row a remote lock is handed over, so that other compute servers get it too, is for those to bound who hand it over.
//
// Places, the slots of the memory servers' lock tables, are hashed to a fixed number of queues: strangers that share
// one merely wait for each other, and get no remote lock from each other.
//
// A place is closed while it is unknown whether its lock is held (rule U5). No coroutine gets a turn there; other places
// of the queue are unaffected.
//
// Thread-safety: all threads. A coroutine goes on in its own thread, when its scheduler comes to it: a session with
// operations under way must be polled. Cost: a spin lock, held for a few pointer writes; it allocates only to close a place.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

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

// A remote lock that was acquired and not released yet: from exactly `word`, by any holder (rule L1).
struct HeldLock {
  LockWord word;  // free: none is held
  uint32_t handovers = 0;

  explicit operator bool() const { return !word.is_free(); }
};

class LockTable {
 public:
  // What a waiter wants done to a node. The holder of the turn may do it.
  struct Wish {
    RemotePtr node;
  };

  enum class Answer : uint8_t {
    kTurn,    // It is the waiter's turn; `held` is the remote lock that came with it.
    kLookUp,  // The queue was ended: the node has split; find it anew.
    kDone,    // The wish was granted by somebody else.
    kClosed,  // Nobody gets a turn at this place for now: what became of the lock is not known.
  };

  struct Waiter : Scheduler::Sleeper {
    Scheduler* scheduler = nullptr;
    LockPlace place;
    Wish* wish = nullptr;
    Answer answer = Answer::kTurn;
    HeldLock held;
    Waiter* behind = nullptr;
  };

  // First in, first out. Waiters link themselves: a list owns nothing.
  class WaiterList {
   public:
    Waiter* first() const { return first_; }
    void PushBack(Waiter& waiter) {
      waiter.behind = nullptr;
      (first_ == nullptr ? first_ : last_->behind) = &waiter;
      last_ = &waiter;
    }
    Waiter* PopFront() {
      Waiter* first = first_;
      if (first != nullptr) first_ = first->behind;
      return first;
    }
    // Puts all of `others`, of which there are some and which is not used after that, ahead of these.
    void Prepend(const WaiterList& others) {
      others.last_->behind = first_;
      if (first_ == nullptr) last_ = others.last_;
      first_ = others.first_;
    }
    // Moves those in front for which match(waiter) is true to the end of `into`, at most `limit` of them.
    template <typename Match>
    void TakeFront(Match&& match, size_t limit, WaiterList& into) {
      while (limit-- != 0 && first_ != nullptr && match(*first_)) into.PushBack(*PopFront());
    }
    void Remove(const Waiter& waiter) {
      Waiter* rest = std::exchange(first_, nullptr);
      while (rest != nullptr) {
        Waiter* one = std::exchange(rest, rest->behind);
        if (one != &waiter) PushBack(*one);
      }
    }

   private:
    Waiter* first_ = nullptr;
    Waiter* last_ = nullptr;  // valid while there is a first
  };

 private:
  struct alignas(64) Queue {
    std::atomic<bool> busy = false;  // guards the rest
    bool taken = false;
    WaiterList waiters;
    std::vector<LockPlace> closed;  // no turn is given at these

    bool IsClosed(const LockPlace& place) const {
      return !closed.empty() && std::ranges::find(closed, place) != closed.end();
    }
  };
  class Guard {
   public:
    explicit Guard(Queue& queue) : queue_(queue) {
      // Its holder may have lost the processor.
      while (queue_.busy.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { queue_.busy.store(false, std::memory_order_release); }

   private:
    Queue& queue_;
  };

 public:
  // A place at which nobody gets a turn while this lives.
  class [[nodiscard]] ClosedPlace {
   public:
    ClosedPlace() = default;
    ClosedPlace(ClosedPlace&& other) noexcept
        : queue_(std::exchange(other.queue_, nullptr)), place_(other.place_) {}
    ClosedPlace& operator=(ClosedPlace&& other) noexcept {
      std::swap(queue_, other.queue_);
      std::swap(place_, other.place_);
      return *this;
    }
    ~ClosedPlace();

   private:
    friend class LockTable;
    ClosedPlace(Queue* queue, const LockPlace& place) : queue_(queue), place_(place) {}

    Queue* queue_ = nullptr;
    LockPlace place_;
  };

  // Until it is given up, handed over or destroyed.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept
        : scheduler_(other.scheduler_), queue_(std::exchange(other.queue_, nullptr)) {}
    Turn& operator=(Turn&& other) noexcept {
      std::swap(scheduler_, other.scheduler_);
      std::swap(queue_, other.queue_);
      return *this;
    }
    ~Turn() { GiveUp(); }
    explicit operator bool() const { return queue_ != nullptr; }

    // The first in the queue gets it.
    void GiveUp();
    // Ends the queue: all who wait go on, in their order, and look up where they belong.
    void Disband();
    // Ends the turn, which is one at `place`: all who wait for that place, and all who come while the result lives,
    // are told that it is closed. Others in the queue are not concerned. Allocates.
    ClosedPlace Close(const LockPlace& place);

    // The first who waits for `place`, or null. It waits until this turn ends: nobody else takes it out.
    Waiter* NextAt(const LockPlace& place);
    // `next`, found by NextAt, gets the turn and the remote lock `held`.
    void HandOver(Waiter& next, const HeldLock& held);

    // Takes those out of the queue who wish something for `node`, at most `limit`; not those behind somebody who wants
    // something else, which would otherwise never get its turn.
    WaiterList TakeWishes(RemotePtr node, size_t limit) {
      WaiterList taken;
      const Guard guard(*queue_);
      queue_->waiters.TakeFront(
          [node](const Waiter& waiter) {
            return waiter.wish != nullptr && waiter.wish->node == node;
          },
          limit, taken);
      return taken;
    }
    // Calls visit(wish) for what those in the queue wish for `node`.
    template <typename Visit>
    void ForEachWish(RemotePtr node, Visit&& visit) {
      const Guard guard(*queue_);
      for (Waiter* waiter = queue_->waiters.first(); waiter != nullptr; waiter = waiter->behind) {
        if (waiter->wish != nullptr && waiter->wish->node == node) visit(*waiter->wish);
      }
    }
    // Puts waiters that were taken back to the head of the queue.
    void PutBack(const WaiterList& waiters);
    // Lets one that was taken go on.
    void Resume(Waiter& waiter, Answer answer) const;

   private:
    friend class LockTable;
    Turn(Scheduler* scheduler, Queue* queue) : scheduler_(scheduler), queue_(queue) {}

    Scheduler* scheduler_ = nullptr;
    Queue* queue_ = nullptr;
  };

  // co_await table.Wait(waiter): until waiter.answer is there; with kTurn, `turn` is the caller's. Scheduler, place
  // and wish are set by the caller. `waiter` and what its wish refers to may be used by other threads meanwhile.
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
        if (is_closed || !std::exchange(queue.taken, true)) return false;
        queue.waiters.PushBack(waiter);
        return true;
      }
      void await_resume() noexcept {
        if (waiter.answer == Answer::kTurn) turn = Turn(waiter.scheduler, &queue);
      }
    };
    return Awaiter{QueueOf(waiter.place), waiter, turn};
  }
  // The turn at `place`, if nobody has it and it is not closed.
  Turn TryTake(const LockPlace& place, Scheduler& scheduler);
  // Turns that somebody has, and closed places: none while nothing goes on, for tests. Takes long.
  size_t CountTurns();
  bool IsClosed(const LockPlace& place) {
    Queue& queue = QueueOf(place);
    const Guard guard(queue);
    return queue.IsClosed(place);
  }
  // Whether `turn` is one at `place`. A turn at a place that shares its queue is none where `place` is closed.
  bool IsAt(const Turn& turn, const LockPlace& place) {
    return turn.queue_ == &QueueOf(place) && !IsClosed(place);
  }

 private:
  static constexpr size_t kQueues = 4096;

  Queue& QueueOf(const LockPlace& place) {
    return queues_[(place.slot / sizeof(uint64_t) + ToInteger(place.server) * 1637) % kQueues];
  }

  std::array<Queue, kQueues> queues_;
};

}  // namespace gossamer
