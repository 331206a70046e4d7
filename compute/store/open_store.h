// OpenStore: what `Store` and `Session` are made of.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/bootstrap/membership.h"
#include "common/embedded_memory.h"
#include "common/fabric/fabric.h"
#include "compute/store/lease_keeper.h"
#include "compute/tree/tree.h"
#include "gossamer/store.h"

namespace gossamer {

// A store that this process has open: its port, its servers and what its sessions share.
class OpenStore final : public Store {
 public:
  static Result<std::unique_ptr<Store>> Open(const OpenOptions& options);
  static Result<std::unique_ptr<Store>> OpenLocal(const LocalOptions& options);
  // The store of `record`, in a network of the caller's. `bootstrap`, if there is one, names servers that join later.
  static Result<std::unique_ptr<OpenStore>> OpenOn(std::unique_ptr<ComputePort> port,
                                                   const StoreRecord& record,
                                                   const TreeOptions& options,
                                                   std::shared_ptr<Bootstrap> bootstrap = nullptr);
  ~OpenStore() override;

  // Of a store that was opened by `OpenOn`: its leases are renewed only where this runs.
  Task<void> KeepLeases(Scheduler& scheduler) { return keeper_->Keep(scheduler); }
  void StopKeepingLeases() { keeper_->Stop(); }
  // Turns held, plus closed places; 0 when nothing runs and no lock is orphaned.
  size_t CountTurns() { return shared_->locks.CountTurns(); }

  Result<std::unique_ptr<Session>> NewSession() override;
  const StoreParameters& parameters() const override { return shared_->parameters; }
  Result<StoreStat> Stat() override;
  Result<CheckReport> Check(const std::function<void(uint64_t)>& progress) override;

 private:
  OpenStore() = default;
  // The way to the fabric. Unsupported where this machine has none.
  Status OpenPort(FabricKind fabric, ComputePortOptions options);
  // Connects to the servers of `record`, registers with each, and checks that each is what the record says. But for
  // server 0, servers that cannot be reached are left out, and tried again when something of theirs is needed.
  Status Connect(const StoreRecord& record, const TreeOptions& options);
  // Over control_. The error of one that cannot be reached is NodeUnreachable.
  Status AddServer(const StoreRecord& record, const MemberRecord& member);
  // Makes control_ if there is none, on the device that the port's first server is reached by.
  Status ConnectControl(ServerId server);
  // Once, over the queue pair that control_ has to it.
  Status AddConnected(const StoreRecord& record, const MemberRecord& member);
  // Starts the keeper's thread if it does not run. Takes no lock that LearnServer holds.
  Status StartKeeper(uint32_t most_connection_ms = std::numeric_limits<uint32_t>::max());
  // Replaces queue pairs of control_ that were lost, to servers where the lease ends with the last queue pair: it must not
  // end with a session. 1 RT where none was lost. Blocks for up to the connection time-out where a server is silent.
  void TendLinks();
  Task<void> TendLink(const ServerInfo& server);
  void NoteUnreachable(ServerId server, const Error& why, Endpoint::Clock::time_point began);
  std::string WhyUnreachable(ServerId server, const Error& error);
  // The servers of the record, and the later ones, as far as they are known.
  std::vector<MemberRecord> Members() const;
  // Finds `server`, which joined later, through the bootstrap, and connects to it.
  Status LearnServer(ServerId server);
  Status FindAndAdd(ServerId server);

  std::unique_ptr<EmbeddedMemory> memory_;  // of a local store; dies last
  std::shared_ptr<Bootstrap> bootstrap_;    // none of a local store
  std::mutex learn_mutex_;                  // guards what LearnServer changes: record_, control_
  StoreRecord record_;
  // Servers that are not known as they could not be reached: not asked again until then. Guarded by learn_mutex_.
  struct Unreachable {
    Error why;
    Endpoint::Clock::time_point until;
  };
  std::map<ServerId, Unreachable> unreachable_;
  // When control_ may be reconnected to a server after that has failed. Guarded by the pause of the orphans.
  std::map<ServerId, Endpoint::Clock::time_point> link_try_at_;
  // How port_ was opened, if it was not the caller's: the keeper needs another.
  std::optional<std::pair<FabricKind, ComputePortOptions>> port_options_;
  std::unique_ptr<ComputePort> port_;
  std::unique_ptr<StoreState> shared_;
  std::unique_ptr<Endpoint>
      control_;  // keeps the registration alive; orphaned locks are settled over it
  std::unique_ptr<LeaseKeeper> keeper_;
  std::mutex keeper_mutex_;
  bool keeper_runs_ = false;  // guarded by keeper_mutex_
};

}  // namespace gossamer
