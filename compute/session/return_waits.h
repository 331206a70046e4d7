// ReturnWaits: for how long this compute server has waited for memory servers that come back with
// their memory.
//
// Operations that wait for another one's lock wait for its servers, too. This time is none of the
// lock timeout, which is for holders that are stopped.
//
// Thread-safety: thread-safe.
#pragma once

#include <cstdint>
#include <mutex>

#include "common/fabric/scheduler.h"

namespace gossamer {

class ReturnWaits {
 public:
  using Clock = Scheduler::Clock;

  // One wait, from here to the end of the scope. Null: it is not counted.
  class [[nodiscard]] Scope {
   public:
    Scope(ReturnWaits* waits, const Scheduler& scheduler) : waits_(waits), scheduler_(scheduler) {
      if (waits_ != nullptr) waits_->Begin(scheduler_.Now());
    }
    ~Scope() {
      if (waits_ != nullptr) waits_->End(scheduler_.Now());
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ReturnWaits* const waits_;
    const Scheduler& scheduler_;
  };

  // The time in which at least one operation has waited.
  Clock::duration Total(Clock::time_point now) const {
    const std::lock_guard lock(mutex_);
    return running_ == 0 ? ended_ : ended_ + (now - since_);
  }

 private:
  void Begin(Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    if (running_++ == 0) since_ = now;
  }
  void End(Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) ended_ += now - since_;
  }

  mutable std::mutex mutex_;
  uint32_t running_ = 0;
  Clock::time_point since_;
  Clock::duration ended_{};  // without the present one
};

}  // namespace gossamer
