// RunningOperations: tells a compute server when all operations have ended that began before some
// moment.
//
// Such operations may hold pointers of the past, which an epoch of a memory server waits for
// (proto/control.h). Each operation belongs to the period in which it began. One thread starts a
// period once no operation of the period before the present one is left. So two counters for each
// session are enough.
//
// Memory model: an operation counts itself, and then looks whether the period is still the one that
// it counted itself in. The thread starts a period, and then reads the counters. Between the two
// steps the operation has a light fence, and the thread a heavy one (asymmetric_fence.h): either
// the operation sees the new period, and counts itself anew, or the thread sees the operation.
// Counting is a release: what operations before it read is over when the thread sees it.
//
// Thread-safety: one thread at a time calls StartPeriod and EarlierHaveEnded; a session belongs to
// one thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <mutex>
#include <vector>

#include "common/asymmetric_fence.h"

namespace gossamer {

class RunningOperations {
 public:
  class OfSession;

  // An operation, or what else uses pointers, from its start to its end.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(OfSession& session);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    OfSession& session_;
    uint32_t period_;
  };

  class OfSession {
   public:
    explicit OfSession(RunningOperations& all) : all_(all) {
      const std::lock_guard lock(all_.mutex_);
      all_.sessions_.push_back(this);
    }
    ~OfSession() {
      const std::lock_guard lock(all_.mutex_);
      std::erase(all_.sessions_, this);
    }
    OfSession(const OfSession&) = delete;
    OfSession& operator=(const OfSession&) = delete;

    uint32_t period() const { return all_.period_.load(std::memory_order_acquire); }

   private:
    friend class RunningOperations;
    void Begin(uint32_t period) {
      std::atomic<uint32_t>& running = running_[period % 2];
      running.store(running.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      LightFence();
    }
    // It may be seen late: then the period lasts longer.
    void End(uint32_t period) {
      std::atomic<uint32_t>& running = running_[period % 2];
      running.store(running.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    }
    RunningOperations& all_;
    std::array<std::atomic<uint32_t>, 2> running_{};  // by period, of which only two are in use
  };

  // Requires (unchecked): EarlierHaveEnded() was true since the last StartPeriod. (It may be false
  // again for a moment: a session that has read an old period corrects itself.)
  void StartPeriod() {
    period_.fetch_add(1, std::memory_order_release);
    HeavyFence();
  }
  // Whether all operations have ended that began in earlier periods.
  bool EarlierHaveEnded() const {
    const uint32_t earlier = period_.load(std::memory_order_relaxed) - 1;
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(sessions_, [earlier](const OfSession* session) {
      return session->running_[earlier % 2].load(std::memory_order_acquire) == 0;
    });
  }

 private:
  std::atomic<uint32_t> period_{1};
  mutable std::mutex mutex_;
  std::vector<OfSession*> sessions_;
};

inline RunningOperations::Scope::Scope(OfSession& session)
    : session_(session), period_(session.period()) {
  session_.Begin(period_);
  for (uint32_t now = session_.period(); now != period_; now = session_.period()) {
    session_.End(period_);
    period_ = now;
    session_.Begin(period_);
  }
}

inline RunningOperations::Scope::~Scope() { session_.End(period_); }

}  // namespace gossamer
