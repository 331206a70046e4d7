// LeaseKeeper: keeps this compute server's leases in force, where they expire.
//
// Each lease is renewed four times in its length. After a failure the keeper reconnects and registers anew: where the
// lease has ended meanwhile, sessions do the same as soon as they notice, and need what they get kept in force, too.
// A failure is logged once, until renewals succeed again.
//
// It renews from a thread of its own, over an own endpoint: a session's thread may be away for any time, in the
// caller's code. In the simulator, where time is virtual, it is a coroutine of some scheduler. Thread-safety: `Start`
// and `Stop` belong to one thread; `Wake` to any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "common/fabric/scheduler.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/lock/orphaned_locks.h"
#include "compute/session/registration.h"
#include "compute/session/servers.h"

namespace gossamer {

class LeaseKeeper {
 public:
  using Clock = Scheduler::Clock;
  // Longest time to wait for a connection: while a server is connected to for the first time, no other lease is
  // renewed. That may take this time twice (Connect, Attach), and another lease be due by then for a quarter of its
  // length.
  static constexpr uint32_t MaxConnectionMs(uint32_t lease_ms) { return lease_ms / 4; }

  // Told of each registration, from the keeper's thread: what was allocated under the lease before is abandoned, though
  // no session may have noticed (rule U4).
  using OnRegistered = std::function<void(ServerId, const Registration&)>;

  // Tends `orphans`, if it is not null, too: the sessions may all be closed, or not be polled.
  explicit LeaseKeeper(const Servers& servers, OnRegistered on_registered = {},
                       OrphanedLocks* orphans = nullptr)
      : servers_(servers), on_registered_(std::move(on_registered)), orphans_(orphans) {}
  ~LeaseKeeper() { Stop(); }
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Renews from a thread of its own. `port` carries the client uuid of the sessions; it need not be connected yet.
  // Unsupported where the machine gives no thread: may be tried again.
  Status Start(std::unique_ptr<ComputePort> port);
  // Ends the thread, or has `Keep` end.
  void Stop();
  // There is another server in `servers`, or an orphan.
  void Wake();

  // Renews over the scheduler's endpoint, to whose servers the port is connected, until `Stop`. Ends when it would
  // renew next.
  Task<void> Keep(Scheduler& scheduler);

 private:
  struct Kept {
    Clock::time_point due{};
    bool is_registered = false;  // over the keeper's queue pair
    bool is_connected = false;
    bool has_failed = false;
    bool is_asking = false;
  };

  bool HasOrphans() const { return orphans_ != nullptr && !orphans_->empty(); }
  void Run();
  // Starts what is due; returns when something will be. Blocks for at most one first connection.
  Clock::time_point RenewDue(Scheduler& scheduler);
  void Connect(Endpoint& endpoint, const ServerInfo& server, Kept& kept);
  Task<void> Renew(Scheduler& scheduler, const ServerInfo& server, Kept& kept);
  void Failed(const ServerInfo& server, Kept& kept, const Error& error);

  const Servers& servers_;
  const OnRegistered on_registered_;
  OrphanedLocks* const orphans_;
  std::unique_ptr<ComputePort> port_;  // of the thread
  std::unique_ptr<Endpoint> endpoint_;
  std::map<ServerId, Kept> kept_;
  size_t asking_ = 0;  // renewals under way

  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool has_news_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace gossamer
