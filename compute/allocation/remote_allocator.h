// RemoteAllocator: where a compute server carves nodes and value blocks from.
//
// Memory servers hand out extents by RPC; nodes and blocks are carved from them here, so that the usual allocation
// costs no round trip. A freed block waits `kGrace` before its memory is used again, under a new generation: a
// reader that still holds the old pointer rejects what it finds, grace or not. Never-used rests go
// back to the servers when the store is closed.
//
// An extent belongs to the lease under which it was granted. With a new lease all that was granted under the one before
// is forgotten (rule U4), used or not: nothing takes it back yet. So is memory that others were granted: a block freed
// here is used again only if this compute server carved it, under its present lease. What is at hand from one server is
// not used after a new lease with another one until the server has confirmed that its own is still in force: 1 RT.
//
// A server that cannot be reached is left out for a while, longer each time, unless no other server has memory.
//
// Thread-safety: shared by the sessions of a store; a mutex is held for pointer arithmetic only.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "common/fabric/scheduler.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/allocation/allocated.h"
#include "compute/allocation/placement.h"
#include "compute/session/registration.h"
#include "compute/session/servers.h"
#include "gossamer/counters.h"
#include "proto/control.h"
#include "proto/value_block.h"

namespace gossamer {

// Internal nodes are few, and lead to everything: on server 0, whose loss is that of the store anyway, no other server takes
// them along when it dies.
enum class NodeKind : uint8_t { kLeaf, kInternal };

class RemoteAllocator {
 public:
  using Clock = Scheduler::Clock;
  static constexpr std::chrono::milliseconds kGrace{1000};

  RemoteAllocator(const Servers& servers, uint32_t node_bytes, uint64_t seed)
      : servers_(servers), node_bytes_(node_bytes), placement_(seed, node_bytes) {}

  // A leaf on `near`'s server, unless `Placement` says that another is better, or that one has no memory or is out of
  // reach; an internal node on server 0, unless that has none. 0 RT; 1 RT for each server that is asked for more memory, or about its lease. Counts control messages in `wire`. `lost` is set to
  // a server whose queue pair, or lease, failed, though another one may have served. Errors: Exhausted when all servers
  // are full; NodeUnreachable or Fenced when one that is not was lost.
  Task<Result<Allocated<RemotePtr>>> AllocateNode(Scheduler& scheduler, ServerId near,
                                                  NodeKind kind, WireCounts& wire,
                                                  std::optional<ServerId>& lost);
  // A block for a value of `length` bytes; otherwise the same.
  Task<Result<Allocated<BlockPtr>>> AllocateBlock(Scheduler& scheduler, uint32_t length,
                                                  WireCounts& wire, std::optional<ServerId>& lost);
  // Takes back what was never reachable, and which no WRITE is on its way to; `bytes` as allocated.
  void GiveBack(RemotePtr node, uint32_t bytes, const AllocationStamp& stamp);
  void GiveBack(BlockPtr block, uint32_t bytes, const AllocationStamp& stamp);
  // Takes back a block that no entry refers to any more.
  void FreeBlock(const BlockRef& block, Clock::time_point now);

  // Whether a batch that makes `memory` reachable from a node on server `from` may be posted (rule U4): the lease with
  // `from` was there when the servers that it lies on last confirmed theirs, and none of these has been replaced since.
  // To be asked in the step that posts, with nothing awaited in between. Lock-free.
  bool MayLink(const LinkedMemory& memory, ServerId from) const;

  // This compute server has registered with `server`, which is in reach: said when the store is opened, by each session
  // that registers, and by the lease keeper. If that is a new lease, all memory of those before is forgotten.
  void Registered(ServerId server, const Registration& registration);
  // `server` cannot be reached.
  void Lost(ServerId server, Clock::time_point now);

  // Starts to give never-used memory back to all servers that can be reached, at the same time; best effort. A queue pair
  // that has been lost is replaced once. Ends when no task of `scheduler` runs any more.
  Task<void> ReleaseAll(Scheduler& scheduler);

 private:
  struct Extent {
    uint64_t next = 0;
    uint64_t end = 0;
  };
  struct PerServer {
    std::optional<Lease> lease;  // nothing: not heard of yet
    uint64_t confirmed = 0;  // registrations_ when it was asked for what showed that lease in force
    std::map<uint64_t, uint64_t> granted;  // under this lease: end of each extent, by its offset
    std::vector<Extent> nodes;             // the newest last
    std::vector<Extent>
        blocks;  // likewise; older ones have rests that were too small for some block
    // While one asks the server for more, others wait for what it gets, until this time at most.
    Clock::time_point refilling_until{};
    // Left out until then, when it was out of reach; and for how long the next time.
    Clock::time_point down_until{};
    std::chrono::milliseconds down_for{};

    std::vector<Extent>& of(control::ExtentKind kind) {
      return kind == control::ExtentKind::kNodes ? nodes : blocks;
    }
    // A request for this many bytes of a kind, or more, has been refused: not asked again until then.
    struct Refused {
      Clock::time_point until{};
      uint64_t bytes = 0;
    };
    std::map<control::ExtentKind, Refused> refused;
  };
  struct FreedBlock {
    BlockPtr pointer;
    Clock::time_point reusable_at;
  };
  struct Wanted {
    control::ExtentKind kind;
    uint64_t bytes;
    bool is_internal = false;  // a node for which server 0 comes first
  };
  struct Piece {
    ServerId server{0};
    uint64_t offset = 0;
    AllocationStamp stamp;
  };

  // The servers to try, best first, without those that are full; behind them those that are down.
  struct Candidates {
    std::vector<ServerId> up;
    std::vector<ServerId> down;
  };
  Candidates FindCandidates(std::optional<ServerId> near, const Wanted& wanted,
                            Clock::time_point now);
  // With mutex_ held.
  AllocationStamp StampAt(ServerId server) { return {server, state_[server].confirmed}; }
  // Whether memory at hand there may be used: no lease with any server is newer than what is known of this one's.
  bool IsConfirmed(ServerId server) { return state_[server].confirmed == registrations_; }
  bool IsDown(ServerId server, Clock::time_point now) { return state_[server].down_until > now; }
  bool IsOurs(ServerId server, uint64_t offset) const;
  bool IsOfPresentLease(const AllocationStamp& stamp) const;
  void Forget(ServerId server, const Lease& lease);
  void ForgetOlder(ServerId server, const Lease& lease);
  std::optional<BlockPtr> TakeFreed(uint32_t bytes, Clock::time_point now, bool after_grace);

  // Cuts from what is at hand on `server`.
  std::optional<Piece> Cut(ServerId server, const Wanted& wanted);
  Task<Result<Piece>> Allocate(Scheduler& scheduler, std::optional<ServerId> near, Wanted wanted,
                               WireCounts& wire, std::optional<ServerId>& lost);
  Task<Result<Piece>> AllocateOn(Scheduler& scheduler, ServerId server, Wanted wanted,
                                 bool although_down, WireCounts& wire);
  bool StartRefill(ServerId server, Clock::time_point now);
  // Has the server confirm its lease, if there is memory at hand that needs it, or give more.
  Task<Status> ConfirmOrRefill(Scheduler& scheduler, ServerId server, Wanted wanted,
                               WireCounts& wire);
  // `asked_at`: registrations_ just before.
  static Task<void> Release(Scheduler& scheduler, ServerId server, std::vector<Extent> extents);
  Task<Status> Refill(Scheduler& scheduler, ServerId server, Wanted wanted, uint64_t asked_at,
                      WireCounts& wire);
  // The server has shown that `lease` was in force after `asked_at`.
  void Confirm(ServerId server, const Lease& lease, uint64_t asked_at);

  const Servers& servers_;
  const uint32_t node_bytes_;
  mutable std::mutex mutex_;
  std::map<ServerId, PerServer> state_;
  Placement placement_;
  std::vector<RemotePtr> returned_nodes_;
  std::map<uint32_t, std::deque<FreedBlock>> freed_blocks_;  // by size
  // Leases that came after others, counted over all servers; and what the count became with each server's present one.
  uint64_t registrations_ = 0;
  std::array<std::atomic<uint64_t>, Servers::kMaxServers> since_{};
};

template <typename Pointer>
void Allocated<Pointer>::GiveBack() {
  if (allocator_ != nullptr) std::exchange(allocator_, nullptr)->GiveBack(pointer_, bytes_, stamp_);
}

}  // namespace gossamer
