// RemoteLocks: what the locks of a session have in common.
//
// Thread-safety: none; what several sessions share (table, orphans, leases) is thread-safe by
// itself.
#pragma once

#include <cstdint>

#include "compute/allocation/session_allocator.h"
#include "compute/counters/live_counters.h"
#include "compute/lock/lease_status.h"
#include "compute/lock/lock_table.h"
#include "compute/lock/orphaned_locks.h"
#include "compute/session/links.h"
#include "compute/session/pauses.h"
#include "proto/leaf_geometry.h"

namespace gossamer {

struct RemoteLocks {
  Links& links;
  Pauses& pauses;
  LockTable& table;
  OrphanedLocks& orphans;
  LeaseStatus& leases;
  const SessionAllocator& memory;
  const LeafGeometry& geometry;
  uint32_t timeout_ms;
  LiveLockCounts& counts;

  uint64_t round_trip_ns = 1000;  // moving average of contended tries
};

}  // namespace gossamer
