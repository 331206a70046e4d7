// OpenStore: the implementation of `Store`.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/bootstrap/membership.h"
#include "common/embedded_memory.h"
#include "common/fabric/compute_port.h"
#include "common/fabric/fabric.h"
#include "compute/session/store_events.h"
#include "compute/store/keeping/expiry_sweeper.h"
#include "compute/store/keeping/lease_keeper.h"
#include "compute/store/keeping/server_finder.h"
#include "compute/store/keeping/upkeep.h"
#include "compute/store/walking/loss_repairer.h"
#include "gossamer/observer.h"
#include "gossamer/store.h"

namespace gossamer {

// A store opened by this process: its port, its servers and the state shared by its sessions.
class OpenStore final : public Store, StoreEvents {
 public:
  static Result<std::unique_ptr<Store>> Open(const OpenOptions& options);
  static Result<std::unique_ptr<Store>> OpenLocal(const LocalOptions& options);
  // Opens the store of `record` over the caller's `port`. `bootstrap`, if not null, finds servers
  // that join later.
  static Result<std::unique_ptr<OpenStore>> OpenOn(std::unique_ptr<ComputePort> port,
                                                   const StoreRecord& record,
                                                   const TreeOptions& options,
                                                   std::shared_ptr<Bootstrap> bootstrap = nullptr);
  ~OpenStore() override;

  // Has a store opened by `OpenOn` find servers in a thread, as others do. Requires (unchecked): no
  // session yet.
  void FindServersInThread() { finder_.UseThread(); }
  // Renews the leases of a store opened by `OpenOn`, which has no thread for that.
  Task<void> KeepLeases(Scheduler& scheduler) { return keeper_->Keep(scheduler); }
  void StopKeepingLeases() { keeper_->Stop(); }
  // Merges nodes of a store opened by `OpenOn`, which has no thread for that, over `session`, by
  // the thread that uses it.
  void MergeOver(OpenSession& session) { merges_over_ = &session; }
  // Leaves nodes, and keys that have expired, as they are from now on: what is counted of
  // operations is of them alone.
  void StopUpkeep();
  // Turns held plus closed places. 0: no operation runs and no lock is orphaned.
  size_t CountTurns() { return shared_->locks.CountTurns(); }
  RemoteAllocator::Granted GrantedOn(ServerId server) const {
    return shared_->allocator.GrantedOn(server);
  }

  Result<std::unique_ptr<Session>> NewSession() override;
  Result<std::unique_ptr<OpenSession>> NewOpenSession();
  const StoreParameters& parameters() const override { return shared_->parameters; }
  Counters counters() const override;
  size_t sessions() const override { return shared_->counts.sessions(); }
  std::vector<HotLeaf> HotLeaves(size_t most) const override;
  DeviceStat Device() const override { return port_->device(); }
  Result<StoreStat> Stat() override;
  Result<StoreUse> MeasureMemory(const std::function<void(uint64_t)>& progress) override;
  Result<CheckReport> Check(const std::function<void(uint64_t)>& progress) override;
  // Like Check, with one look: what merges under way leave for a moment counts as a problem.
  Result<CheckReport> CheckOnce(const std::function<void(uint64_t)>& progress);
  Result<SweepReport> Sweep(const std::function<bool(const SweepProgress&)>& progress) override;
  Result<bool> NeedsSweep() override;
  Result<RepairReport> Repair(bool dry_run,
                              const std::function<bool(uint64_t nodes)>& progress) override;
  Result<std::optional<SweepReport>> SweepIfNeeded(
      const std::function<bool(const SweepProgress&)>& progress) override;
  // The same over the scheduler of a session that does nothing else meanwhile: a sweep replaces
  // queue pairs of its endpoint.
  Task<Result<SweepReport>> SweepOver(Scheduler& scheduler,
                                      std::function<bool(const SweepProgress&)> progress = {});
  // Repairs likewise what was lost with the servers that `options` names.
  Task<Result<RepairReport>> RepairOver(Scheduler& scheduler, LossRepairer::Options options);

 private:
  OpenStore() = default;

  SearchState FindServer(ServerSearch& search) override { return finder_.Find(search); }
  void OnShortage() override { finder_.LookForNew(); }
  void OnFirstOrphan() override;
  void OnFirstMerge() override;
  // Has `observer`, unless null, watch the store until it is closed. Call before anything is
  // opened.
  // Errors: those of StoreObserver::Begin.
  Status BeginObservation(std::shared_ptr<StoreObserver> observer);
  // Connects, then tells the observer. Returns `store` itself.
  static Result<std::unique_ptr<Store>> Finish(std::unique_ptr<OpenStore> store,
                                               const StoreRecord& record,
                                               const TreeOptions& options);
  // Opens port_.
  // Errors: Unsupported if this machine has no such fabric.
  Status OpenPort(FabricKind fabric, ComputePortOptions options);
  // Connects to and registers with the servers of `record`, and checks that each matches it.
  // Unreachable servers other than server 0 are left out, and tried again when something of theirs
  // is needed.
  Status Connect(StoreRecord record, const TreeOptions& options);
  // Adds server 0. If that has ended, and is to come back, waits for it for `patience`, and reads
  // `record` anew.
  Status AddRoot(StoreRecord& record, std::chrono::milliseconds patience);
  // Uses control_, with the orphans paused, once the server has answered.
  // Errors: NodeUnreachable if the server cannot be reached.
  Status AddServer(const StoreRecord& record, const MemberRecord& member);
  // Makes control_, if there is none, on the device that reaches the port's first server.
  Status ConnectControl(ServerId server);
  // Tries once, over control_'s queue pair to the server.
  Status AddConnected(const StoreRecord& record, const MemberRecord& member);
  // Starts the keeper's thread if it does not run. Takes no lock that LearnServer holds.
  Status StartKeeper(uint32_t most_connection_ms = std::numeric_limits<uint32_t>::max());
  // Tells the memory servers to which this process has given back all that it does not use.
  void SayFarewell(Scheduler& scheduler);
  // Replaces lost queue pairs of control_ to servers where a lease ends with its last queue pair:
  // the lease must not end with a session. Blocks for up to the connection timeout if a server is
  // silent.
  // Cost: 1 RT if no queue pair was lost.
  void TendLinks() override;
  Task<void> TendLink(const ServerInfo& server);
  void NoteUnreachable(ServerId server, uint64_t incarnation, const Error& why,
                       Endpoint::Clock::time_point began);
  std::string WhyUnreachable(ServerId server, const Error& error);
  // What it means that the root cannot be read: the store may be gone. Reads the record.
  Error WhyNoRoot(const Error& error);
  // The servers of the record and those learned later.
  std::vector<MemberRecord> Members() const;
  // Finds `server`, which joined later, or has come back in another incarnation than `gone`,
  // through the bootstrap, and connects to it. The finder calls it.
  Status LearnServer(ServerId server, uint64_t gone = 0);
  // Returns the record, which names the server in another incarnation than `gone`.
  Result<StoreRecord> FindRecordOf(ServerId server, uint64_t gone);
  // Makes all servers known that the store's record names, as far as they can be reached. Returns 0
  // if the record names all that the store has. If not, because it was lost and put back a short
  // while ago: in how long it does.
  // Errors: NodeUnreachable if one cannot be reached, or the bootstrap.
  Result<std::chrono::milliseconds> LearnServers();
  // The servers that the store has had and that its record does not name any more: what they held
  // is lost.
  // Errors: those of LearnServers; Contended if the record is lost again and again.
  Result<std::set<ServerId>> FindLostServers();

  std::shared_ptr<StoreObserver> observer_;  // may be null
  std::unique_ptr<EmbeddedMemory> memory_;   // of a local store; destroyed behind all that uses it
  std::shared_ptr<Bootstrap> bootstrap_;     // null in a local store
  std::mutex learn_mutex_;                   // guards what LearnServer changes: record_, control_
  StoreRecord record_;
  // Unknown because unreachable; that incarnation is not tried again until `until`. 0: the record
  // could not be read. Guarded by learn_mutex_.
  struct Unreachable {
    uint64_t incarnation;
    Error why;
    Endpoint::Clock::time_point until;
  };
  std::map<ServerId, Unreachable> unreachable_;
  // The `restored` of the record that LearnServers read last, and when it first did. Guarded by
  // learn_mutex_.
  uint64_t restored_ = 0;
  Endpoint::Clock::time_point restored_since_;
  // When control_ may try again to reconnect to a server. Guarded by the pause of the orphans.
  std::map<ServerId, Endpoint::Clock::time_point> link_try_at_;
  // How port_ was opened, unless the caller opened it: the keeper opens another.
  std::optional<std::pair<FabricKind, ComputePortOptions>> port_options_;
  std::unique_ptr<ComputePort> port_;
  std::unique_ptr<StoreState> shared_;
  std::unique_ptr<Endpoint> control_;  // keeps the registration alive; settles orphaned locks
  std::unique_ptr<EpochAcknowledger> epochs_;
  std::unique_ptr<LeaseKeeper> keeper_;
  std::mutex keeper_mutex_;
  bool keeper_runs_ = false;  // guarded by keeper_mutex_
  // Of a store that has opened its port itself.
  std::unique_ptr<Upkeep> upkeep_;
  std::unique_ptr<ExpirySweeper> expiry_;
  OpenSession* merges_over_ = nullptr;  // of another one: see MergeOver
  std::atomic<bool> stops_merging_ = false;
  ServerFinder finder_{[this](ServerId server, uint64_t gone) { return LearnServer(server, gone); },
                       [this] { static_cast<void>(LearnServers()); }};
};

}  // namespace gossamer
