// LeaseKeeper: keeps this compute server's leases in force, where leases expire, and acknowledges
// epochs.
//
// It renews each lease four times in its length, and again at once while memory waits for this
// compute server (rule G4). After a failure it reconnects and registers again. If the lease has
// ended meanwhile, sessions register again too, and their lease must also be renewed. A failure is
// logged once until renewals succeed again. A server that is to come back is looked for: sessions
// do that only when they need it, and until this compute server has a lease there again, sweeps
// leave alone what it had. Where leases do not expire, renewals only tell of
// epochs and of waiting memory: the first one is due after kWithoutExpiry, so that a process that
// soon ends makes no connection for it.
//
// The keeper has its own thread and endpoint, because a session's thread may stay in the caller's
// code for any time. In the simulator, where time is virtual, it is a coroutine of a scheduler.
//
// Thread-safety: one thread calls `Start` and `Stop`; any thread may call `Wake`.
#pragma once

#include <atomic>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/fabric/compute_port.h"
#include "common/fabric/scheduler.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/allocation/remote_allocator.h"
#include "compute/lock/orphaned_locks.h"
#include "compute/session/links.h"
#include "compute/session/servers.h"
#include "compute/store/keeping/epoch_acknowledger.h"

namespace gossamer {

class LeaseKeeper {
 public:
  using Clock = Scheduler::Clock;
  // Longest time to wait for a connection. During a first connection no other lease is renewed. It
  // may take this time twice (Connect, Attach) while another lease is already due for a quarter of
  // its length.
  static constexpr uint32_t MaxConnectionMs(uint32_t lease_ms) { return lease_ms / 4; }

  static constexpr std::chrono::milliseconds kWithoutExpiry{1000};

  // Requires: with `epochs`, `allocator`.
  // What is not null is tended along, as all sessions may be closed or not polled. `allocator` is
  // told of each registration: memory allocated under an earlier lease is abandoned, even if no
  // session has noticed the new lease (rule U4). It gives up memory that a server offers, or more
  // once a server says that it has refused others memory. `find_server`, if there is one, finds a
  // server that is to come back. `clock` learns the store's time.
  explicit LeaseKeeper(const Servers& servers, RemoteAllocator* allocator = nullptr,
                       OrphanedLocks* orphans = nullptr, EpochAcknowledger* epochs = nullptr,
                       FindServer find_server = {}, StoreClock* clock = nullptr)
      : servers_(servers),
        allocator_(allocator),
        orphans_(orphans),
        epochs_(epochs),
        find_server_(std::move(find_server)),
        clock_(clock) {
    assert(epochs == nullptr || allocator != nullptr);
  }
  ~LeaseKeeper() { Stop(); }
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Renews from a thread. `port` has the client uuid of the sessions and need not be connected.
  // Errors: Unsupported if the machine gives no thread; may be tried again.
  Status Start(std::unique_ptr<ComputePort> port);
  // Ends the thread, or makes `Keep` end, once the requests under way have ended.
  void Stop();
  // Call after a server was added to `servers` or a lock was orphaned.
  void Wake();
  // Renews all leases at once: an epoch has begun that others wait for.
  void Hurry();

  // Renews over the scheduler's endpoint until `Stop`; ends at the next renewal after it. Requires
  // (unchecked): the endpoint's port is connected to the servers.
  Task<void> Keep(Scheduler& scheduler);

 private:
  struct Kept {
    Clock::time_point due{};
    bool is_registered = false;  // over the keeper's queue pair
    bool is_connected = false;
    uint64_t incarnation = 0;  // of the server that it was connected to
    bool has_failed = false;
    bool is_asking = false;            // or it is looked for
    std::optional<uint16_t> refusals;  // that the server has told of
  };

  // Whether requests are under way.
  bool is_asking() const;
  // Goes on with what needs to be looked at often. Returns whether there is such work.
  bool TendOthers(Scheduler& scheduler);
  Task<Status> RenewRegistered(Scheduler& scheduler, const ServerInfo& server, Kept& kept);
  void Run();
  // Starts the renewals that are due, and sets due_. Blocks for at most one first connection.
  void RenewDue(Scheduler& scheduler);
  void Connect(Scheduler& scheduler, const ServerInfo& server, Kept& kept);
  Task<void> Renew(Scheduler& scheduler, const ServerInfo& server, Kept& kept);
  void Failed(const ServerInfo& server, Kept& kept, const Error& error);
  // Looks for the server if it is to come back.
  void LookFor(Scheduler& scheduler, const ServerInfo& server, Kept& kept);
  Task<void> Search(Scheduler& scheduler, const ServerInfo& server, Kept& kept);

  const Servers& servers_;
  RemoteAllocator* const allocator_;
  OrphanedLocks* const orphans_;
  EpochAcknowledger* const epochs_;
  const FindServer find_server_;
  StoreClock* const clock_;
  std::unique_ptr<ComputePort> port_;  // the thread's
  std::unique_ptr<Endpoint> endpoint_;
  std::map<ServerId, Kept> kept_;
  size_t asking_ = 0;              // renewals under way
  size_t searching_ = 0;           // searches under way
  Clock::time_point due_{};        // the next renewal
  bool waits_to_connect_ = false;  // until no renewal is under way

  std::atomic<bool> stopping_ = false;
  std::atomic<bool> hurries_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool has_news_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace gossamer
