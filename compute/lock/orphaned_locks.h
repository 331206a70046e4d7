// OrphanedLocks: the locks of a store of which it is not known whether they are held, and what becomes of them (rule U5).
//
// A session that cannot find out what became of a verb which takes, holds or releases a lock, as the memory server is
// out of reach, gives the lock to the store: the session may close, or may never be polled again. Until the lock is
// settled no operation of this compute server gets a turn at it: it would take the lock's word for its own (rule U2).
//
// To settle it: the memory server destroys the queue pair that carried the verb, whichever session's that was, so that
// nothing of it lands any more (rule U1); then the lock is released by CAS from its own word, if this compute server's
// lease is still the one in that word. If it is not, the lock is void. Both go over one endpoint, which no session
// has. A server that cannot be reached is tried again after kTryAgain, or four times as long as the last try took.
//
// Thread-safety: thread-safe. `Tend` is called by sessions that are polled, by coroutines that wait for a place, and by
// the lease keeper: one of them at a time has an effect. Cost: `empty` is one load.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "common/fabric/scheduler.h"
#include "compute/lock/lock_table.h"
#include "compute/session/registration.h"
#include "proto/lock_word.h"

namespace gossamer {

class OrphanedLocks {
 public:
  using Clock = Scheduler::Clock;
  static constexpr std::chrono::milliseconds kTryAgain{500};

  struct Orphan {
    LockPlace place;
    HeldLock held;         // its word, if it is held
    uint64_t carrier = 0;  // the queue pair that carried the last verb about it
    LockTable::ClosedPlace closed;
  };
  // Is told of each registration.
  using OnRegistered = std::function<void(ServerId, const Registration&)>;

  OrphanedLocks() = default;
  OrphanedLocks(const OrphanedLocks&) = delete;
  OrphanedLocks& operator=(const OrphanedLocks&) = delete;

  // From here on only this object uses `endpoint`, except under `Pause`. The endpoint lives until `Stop`. Its port is that
  // of the sessions.
  void SettleOver(Endpoint& endpoint, OnRegistered on_registered);
  // Ends what is under way; nothing is settled any more, and the places are open again.
  void Stop();
  // Called when the first orphan comes, by the thread that brings it.
  void OnFirst(std::function<void()> on_first) { on_first_ = std::move(on_first); }

  // No other thread settles anything while the result lives, so that the caller may use the endpoint. Its polls resume
  // what is under way: settling must take no lock that a caller of this holds.
  [[nodiscard]] std::unique_lock<std::mutex> Pause() { return std::unique_lock(mutex_); }

  void Add(Orphan orphan);
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }
  // Goes on settling, without blocking; returns at once when another thread does.
  void Tend();
  // The next try to settle what is at `server` is due now.
  void TryAgain(ServerId server);
  // Tries that have failed, in all.
  uint64_t CountFailures(ServerId server);

 private:
  struct Link {
    bool is_busy = false;
    Clock::time_point try_at{};
  };

  void StartDue();
  Task<void> Settle(ServerId server);
  enum class Outcome : uint8_t { kSettled, kLostAgain, kSilent, kOutOfReach };
  Task<Outcome> SettleOne(Orphan& orphan);

  std::mutex mutex_;  // guards the rest; held while the scheduler runs
  std::optional<Scheduler> scheduler_;
  OnRegistered on_registered_;
  std::function<void()> on_first_;
  std::list<Orphan> orphans_;
  std::map<ServerId, Link> links_;

  std::mutex news_mutex_;  // guards what sessions bring while the scheduler runs
  std::list<Orphan> news_;
  std::set<ServerId> wanted_;
  std::map<ServerId, uint64_t> failures_;
  std::atomic<size_t> count_ = 0;
};

}  // namespace gossamer
