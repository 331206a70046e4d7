// Sweeper: gives back what compute servers left behind that ended without giving back their memory.
//
// Orphaned memory belongs to a lease that has ended. Some of it is part of the tree. The rest was
// never linked, or is not linked any more, and nobody knows of it (rule U4). A sweep
//   1. lists the orphaned memory whose owner can link nothing of it any more: the owner is
//      registered nowhere, or again where the memory is, and so has forgotten it;
//   2. waits for an epoch of every memory server: what the owner had on its way to link it has
//      landed;
//   3. reads the whole tree, and marks the orphaned nodes and blocks that it meets. From 2 on a
//      node or block that is not in the tree never enters it again;
//   4. waits for another epoch: what other compute servers removed from the tree up to here, they
//      have given back, and no pointer to memory without a mark is left;
//   5. gives back what is still orphaned and has no mark, unless a server has joined meanwhile:
//      then it begins anew.
// PROTOCOL.md ("Sweeping") has the argument. The sweep holds no lock, and changes nothing before 5.
// So it may die at any time, and several may run.
//
// Cost: 1 RT for each node, one after the other; 1 RT for each few ranges.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/task.h"
#include "compute/store/keeping/used_memory.h"
#include "compute/store/walking/tree_walk.h"
#include "compute/tree/tree.h"
#include "gossamer/store.h"
#include "proto/control.h"

namespace gossamer {

class Sweeper {
 public:
  // `progress`, unless empty, is called now and then, and ends the sweep if it returns false;
  // `on_epoch` whenever an epoch begins. `learn_servers` makes all servers known that the store has
  // now. It returns 0, or in how long to call it again, or which server it cannot reach.
  Sweeper(StoreState& shared, Scheduler& scheduler,
          std::function<bool(const SweepProgress&)> progress, std::function<void()> on_epoch,
          std::function<Result<std::chrono::milliseconds>()> learn_servers)
      : shared_(shared),
        scheduler_(scheduler),
        tree_(shared, scheduler),
        progress_(std::move(progress)),
        on_epoch_(std::move(on_epoch)),
        learn_servers_(std::move(learn_servers)) {}

  // Errors: NodeUnreachable if a memory server cannot be reached: then nobody knows who is
  // registered there. Contended if a compute server does not acknowledge an epoch in time, or
  // servers join or end this process's lease all the time.
  Task<Result<SweepReport>> Run();
  // Waits for an epoch of every server, and does nothing else: no pointer is left that a compute
  // server had before. Errors: as Run.
  Task<Status> PassEpoch();

 private:
  // Of one server, by owner.
  struct Owner {
    Lease lease;
    uint64_t client_uuid = 0;
    friend auto operator<=>(const Owner& a, const Owner& b) {
      return std::tuple(a.lease.compute, a.lease.incarnation, a.client_uuid) <=>
             std::tuple(b.lease.compute, b.lease.incarnation, b.client_uuid);
    }
    friend bool operator==(const Owner&, const Owner&) = default;
  };
  using Orphans = std::map<Owner, MemoryRanges>;

  // All steps. Returns false, with nothing given back, if a server has joined meanwhile, or has
  // ended this process's lease.
  Task<Result<bool>> TrySweep();
  Task<Status> LearnServers();
  // The servers as they are now.
  Task<Status> ConnectAll();
  // Whether no server has joined since ConnectAll, and this process has the leases of that time.
  bool AreSame() const {
    return shared_.servers.All().size() == servers_.size() && shared_.allocator.leases() == leases_;
  }
  Task<Status> Connect(ServerId server);
  // As CallControl, which is repeated once if the queue pair is broken.
  template <typename Reply, typename Request>
  Task<Result<Reply>> Ask(ServerId server, Request request);
  Task<Result<Orphans>> List(ServerId server);
  Task<Status> Find();
  // Whether the owner of memory of `home` can link nothing of it any more, once an epoch has
  // passed.
  Task<Result<bool>> IsGone(ServerId home, const Owner& owner);
  // Waits until every compute server has acknowledged that the present moment has passed.
  Task<Status> AwaitEpoch();
  Task<Status> AwaitEpochOf(ServerId server, uint32_t epoch);
  Task<Status> GiveBack();
  Task<Status> GiveBack(ServerId server, const Owner& owner, const MemoryRanges& pieces);
  // Tells the memory servers that this sweep has seen to what was left behind when it began. One
  // that does not learn of it has the next sweep look again.
  Task<void> TellDone();
  // Contended if the caller has ended the sweep.
  Status Tell(SweepProgress::Step step, std::string waits_for = {});

  StoreState& shared_;
  Scheduler& scheduler_;
  Tree tree_;
  std::function<bool(const SweepProgress&)> progress_;
  std::function<void()> on_epoch_;
  std::function<Result<std::chrono::milliseconds>()> learn_servers_;
  SweepProgress told_;
  SweepReport report_;
  bool is_stopped_ = false;
  std::map<ServerId, uint32_t> ended_;  // as in control::SweepReply, from before orphans_ was made
  std::vector<const ServerInfo*> servers_;
  uint64_t leases_ = 0;  // of this process, when servers_ was made
  std::map<ServerId, Orphans> orphans_;
  UsedMemory marks_;
};

}  // namespace gossamer
