// LockSession: the parts of a session that a RemoteLock stands on, over a ScriptedEndpoint.
#pragma once

#include <cstdint>
#include <functional>

#include "compute/allocation/remote_allocator.h"
#include "compute/lock/remote_lock.h"
#include "compute/session/testing/scripted_endpoint.h"
#include "proto/region.h"

namespace gossamer {

inline constexpr uint32_t kNodeBytes = 512;
inline constexpr uint64_t kRegionBytes = 1 << 16;
inline constexpr uint64_t kLockBytes = 4096;

// What sessions of one compute server share.
struct LockSharing {
  LockSharing() {
    for (uint16_t id = 0; id < 2; ++id) {
      ServerInfo info;
      info.id = ServerId{id};
      info.region_bytes = kRegionBytes;
      info.lock_table_bytes = kLockBytes;
      servers.Add(info);
    }
  }

  Servers servers;
  ReturnWaits waits;
  LockTable table;
  StoreEvents events;
  OrphanedLocks orphans{events};
  LeaseStatus leases;
  RemoteAllocator allocator{servers, events, kNodeBytes, 1};
  LeafGeometry geometry{kNodeBytes};
};

struct LockSession {
  explicit LockSession(LockSharing& sharing, std::chrono::milliseconds patience = {})
      : shared(sharing), reconnect(patience) {}

  template <typename T>
  T Run(Task<T> task) {
    return scheduler.Run(std::move(task));
  }
  // A lock with words of its own, aimed at `node`.
  RemoteLock LockOf(RemotePtr node, Op& op) {
    RemoteLock lock(locks, op);
    lock.UseWords(words.address(), words.address(8));
    if (!lock.AimAt(node) || !lock.TryTakeTurn()) std::abort();
    return lock;
  }

  LockSharing& shared;
  std::chrono::milliseconds reconnect;
  uint64_t lease_number = 0;  // of the lease that the next registration gives
  FindServer find_server = [](ServerSearch& search) {
    search.found = MakeError(Code::kNodeUnreachable, "none");
    return SearchState::kEnded;
  };
  ScriptedEndpoint endpoint{2, kRegionBytes, kLockBytes};
  Scheduler scheduler{endpoint};
  Pauses pauses{scheduler, 1};
  LiveLockCounts counts;
  Links links{scheduler,
              pauses,
              shared.servers,
              {[this](ServerId, const Registration&) { return lease_number; },
               [](ServerId, Links::Clock::time_point) {},
               [this](ServerSearch& search) { return find_server(search); }, nullptr, nullptr,
               reconnect, &shared.waits}};
  SessionAllocator memory{links, shared.allocator};
  RemoteLocks locks{links,  pauses,          shared.table, shared.orphans, shared.leases,
                    memory, shared.geometry, 10'000,       counts};
  BufferLease words = links.Buffer(64).value();
  BufferLease image = links.Buffer(kNodeBytes).value();
};

}  // namespace gossamer
