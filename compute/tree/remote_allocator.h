// RemoteAllocator: where a compute server carves nodes and value blocks from.
//
// Memory servers hand out extents by RPC; nodes and blocks are carved from them here, so that the usual allocation
// costs no round trip. A freed block waits `kGrace` before its memory is used again, under a new generation: a
// reader that still holds the old pointer rejects what it finds, grace or not. Never-used rests go
// back to the servers when the store is closed.
//
// Thread-safety: shared by the sessions of a store; a mutex is held for pointer arithmetic only.
#pragma once

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
#include "compute/tree/servers.h"
#include "gossamer/counters.h"
#include "proto/control.h"
#include "proto/value_block.h"

namespace gossamer {

class RemoteAllocator {
 public:
  using Clock = Scheduler::Clock;
  static constexpr std::chrono::milliseconds kGrace{1000};

  RemoteAllocator(const Servers& servers, uint32_t node_bytes)
      : servers_(servers), node_bytes_(node_bytes) {}

  // A node on `near`'s server, unless that server is clearly fuller than the emptiest (design section 5), or full.
  // Exhausted when all are full. Counts its control messages in `wire`. `lost` is set to a server whose queue pair, or
  // lease, failed.
  Task<Result<RemotePtr>> AllocateNode(Scheduler& scheduler, ServerId near, WireCounts& wire,
                                       std::optional<ServerId>& lost);
  // A block for a value of `length` bytes, on the server least used by this compute server.
  Task<Result<BlockPtr>> AllocateBlock(Scheduler& scheduler, uint32_t length, WireCounts& wire,
                                       std::optional<ServerId>& lost);
  // Takes back a node that was never reachable. Ignores one that was allocated under an earlier lease.
  void ReturnNode(RemotePtr node);
  // Takes back a block that no entry refers to any more.
  void FreeBlock(const BlockRef& block, Clock::time_point now);

  // This compute server's lease with `server` is `lease`: if that is a new one, forgets all memory of those before
  // (rule U4), as others may sweep it from now on. Nodes and blocks allocated before and not yet reachable must not
  // become so any more. Each session may say so when it registers; what was forgotten already stays so.
  void Abandon(ServerId server, Lease lease);

  // Gives never-used memory back to the servers; best effort.
  Task<void> ReleaseAll(Scheduler& scheduler);

 private:
  struct Extent {
    uint64_t next = 0;
    uint64_t end = 0;
  };
  struct PerServer {
    std::optional<Lease> lease;            // empty: the first
    std::map<uint64_t, uint64_t> granted;  // under this lease: end of each extent, by its offset
    std::vector<Extent> nodes;             // the newest last
    std::vector<Extent>
        blocks;  // likewise; older ones have rests that were too small for some block
    uint64_t allocated_bytes = 0;
    // While one asks the server for more, others wait for what it gets, until this time at most.
    Clock::time_point refilling_until{};

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

  // The servers in the order to try: `near` first unless it is clearly fuller, full ones left out.
  std::vector<ServerId> Preference(std::optional<ServerId> near, control::ExtentKind kind,
                                   uint64_t bytes, Clock::time_point now);
  // Cuts `bytes` from what is at hand on `server`.
  std::optional<uint64_t> Cut(ServerId server, control::ExtentKind kind, uint64_t bytes);
  Task<Result<uint64_t>> Allocate(Scheduler& scheduler, std::optional<ServerId> near,
                                  control::ExtentKind kind, uint64_t bytes, WireCounts& wire,
                                  ServerId& chosen, std::optional<ServerId>& lost);
  bool StartRefill(ServerId server, Clock::time_point now);
  Task<Status> Refill(Scheduler& scheduler, ServerId server, control::ExtentKind kind,
                      uint64_t bytes, WireCounts& wire);

  const Servers& servers_;
  const uint32_t node_bytes_;
  std::mutex mutex_;
  std::map<ServerId, PerServer> state_;
  std::vector<RemotePtr> returned_nodes_;
  std::map<uint32_t, std::deque<FreedBlock>> freed_blocks_;  // by size
};

}  // namespace gossamer
