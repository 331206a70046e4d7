// OrphanedLocks: settles locks of a store when it is unknown whether they are held (rule U5).
//
// A verb that takes, holds or releases a lock may end unknown while the memory server is out of
// reach. The session then gives the lock to the store, because the session may close or may never
// be polled again. Until the lock is settled, no operation of this compute server gets a turn at
// it: the operation would take the lock's word for its own (rule U2).
//
// To settle a lock, the memory server destroys the queue pair that carried the verb, of whichever
// session, so that nothing of it lands any more (rule U1). If the lease in the lock's word is still
// this compute server's, the lock is released by CAS from that word. Otherwise the lock is void.
// Both steps go over one endpoint that no session uses. An unreachable server is tried again after
// kTryAgain, or four times as long as the last try took, up to 2 s.
//
// Thread-safety: thread-safe. Polled sessions, coroutines that wait for a place, and the lease
// keeper call `Tend`; one thread at a time does the work.
// Cost: `empty` is one load.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "common/fabric/scheduler.h"
#include "compute/allocation/remote_allocator.h"
#include "compute/lock/lock_table.h"
#include "compute/session/store_events.h"
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
  explicit OrphanedLocks(StoreEvents& events) : events_(events) {}
  OrphanedLocks(const OrphanedLocks&) = delete;
  OrphanedLocks& operator=(const OrphanedLocks&) = delete;

  // Requires (unchecked): only this object uses `endpoint` from now on, except under `Pause`. The
  // endpoint lives until `Stop`, and its port is that of the sessions. `allocator` is told of each
  // registration.
  void SettleOver(Endpoint& endpoint, RemoteAllocator& allocator);
  // Ends tasks under way, stops settling, and opens the places.
  void Stop();

  // While the result lives, no other thread settles, and the caller may use the endpoint. The
  // caller's polls resume tasks under way: settling must take no lock that a caller holds.
  [[nodiscard]] std::unique_lock<std::mutex> Pause() { return std::unique_lock(mutex_); }
  // Likewise, and no task for `server` is under way: the caller may replace the endpoint's queue
  // pair to it. Blocks for up to the connection timeout if the server is silent.
  [[nodiscard]] std::unique_lock<std::mutex> PauseFor(ServerId server);

  void Add(Orphan orphan);
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }
  // Continues settling without blocking. Returns at once if another thread does.
  void Tend();
  // Makes the next try for `server` due now.
  void TryAgain(ServerId server);
  // Number of failed tries for `server`.
  uint64_t CountFailures(ServerId server);
  // Whether a lock of the server is orphaned.
  bool HasOn(ServerId server);

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
  RemoteAllocator* allocator_ = nullptr;
  StoreEvents& events_;
  std::list<Orphan> orphans_;
  std::map<ServerId, Link> links_;

  std::mutex news_mutex_;                  // guards what sessions add while the scheduler runs
  std::map<ServerId, uint64_t> count_of_;  // guarded by news_mutex_
  std::list<Orphan> news_;
  std::set<ServerId> wanted_;
  std::map<ServerId, uint64_t> failures_;
  std::atomic<size_t> count_ = 0;
};

}  // namespace gossamer
