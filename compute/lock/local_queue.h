// LocalQueue: coroutines of one session that want the same remote lock wait here, in the order they came.
//
// Only the first of them contends remotely; the others cost no verbs meanwhile, and an ascending load stays
// ascending. Slots of the lock tables are hashed to a fixed number of queues: strangers that share one merely wait
// for each other. Nobody waits in a queue while in another, and who holds a remote lock waits for nobody: no deadlock.
//
// Cost: no allocation. Thread-safety: none; a queue belongs to its session's thread.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/fabric/scheduler.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class LocalQueue {
  struct Waiter {
    std::coroutine_handle<> coroutine;
    bool is_sent_away = false;
    Waiter* next = nullptr;
  };
  struct Queue {
    bool taken = false;
    Waiter* first = nullptr;
    Waiter* last = nullptr;
  };

 public:
  // A turn, until it is destroyed or given up.
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
    // The next in the queue gets it, and goes on when the scheduler comes to it: whoever gives up a turn to wait
    // for another stays ahead of those behind it.
    void GiveUp() {
      Queue* queue = std::exchange(queue_, nullptr);
      if (queue == nullptr) return;
      Waiter* next = queue->first;
      if (next == nullptr) {
        queue->taken = false;
        return;
      }
      queue->first = next->next;
      scheduler_->MakeReady(next->coroutine);
    }
    // Ends the queue: all who wait go on, in their order, without a turn. They look where they belong now.
    void Disband() {
      Queue* queue = std::exchange(queue_, nullptr);
      if (queue == nullptr) return;
      for (Waiter* waiter = queue->first; waiter != nullptr; waiter = waiter->next) {
        waiter->is_sent_away = true;
        scheduler_->MakeReady(waiter->coroutine);
      }
      *queue = Queue();
    }
    explicit operator bool() const { return queue_ != nullptr; }

   private:
    friend class LocalQueue;
    Turn(Scheduler* scheduler, Queue* queue) : scheduler_(scheduler), queue_(queue) {}
    Scheduler* scheduler_ = nullptr;
    Queue* queue_ = nullptr;
  };

  explicit LocalQueue(Scheduler& scheduler) : scheduler_(scheduler) {}

  // co_await queue.Wait(server, slot): the caller's turn at that slot of that server's lock table; none if the
  // queue was disbanded meanwhile.
  auto Wait(ServerId server, uint64_t slot_offset) {
    struct Awaiter {
      Scheduler& scheduler;
      Queue& queue;
      Waiter waiter;

      bool await_ready() noexcept { return !std::exchange(queue.taken, true); }
      void await_suspend(std::coroutine_handle<> coroutine) noexcept {
        waiter.coroutine = coroutine;
        (queue.first == nullptr ? queue.first : queue.last->next) = &waiter;
        queue.last = &waiter;
      }
      Turn await_resume() noexcept {
        return waiter.is_sent_away ? Turn() : Turn(&scheduler, &queue);
      }
    };
    return Awaiter{scheduler_, QueueOf(server, slot_offset), {}};
  }
  // Whether `turn` is one at that slot.
  bool IsAt(const Turn& turn, ServerId server, uint64_t slot_offset) {
    return turn.queue_ == &QueueOf(server, slot_offset);
  }
  // Whether a turn there would have to be waited for.
  bool IsTaken(ServerId server, uint64_t slot_offset) { return QueueOf(server, slot_offset).taken; }

 private:
  static constexpr size_t kQueues = 1024;

  Queue& QueueOf(ServerId server, uint64_t slot_offset) {
    return queues_[(slot_offset / sizeof(uint64_t) + ToInteger(server) * 409) % kQueues];
  }

  Scheduler& scheduler_;
  std::array<Queue, kQueues> queues_;
};

}  // namespace gossamer
