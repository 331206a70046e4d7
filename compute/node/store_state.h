// StoreState: what the sessions of a store share in a compute server.
//
// Thread-safety: thread-safe; what is const does not change.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/random_id.h"
#include "common/status.h"
#include "compute/allocation/remote_allocator.h"
#include "compute/cache/fill_plan.h"
#include "compute/cache/node_cache.h"
#include "compute/cache/reference_cache.h"
#include "compute/counters/session_counts.h"
#include "compute/lock/lease_status.h"
#include "compute/lock/lock_table.h"
#include "compute/lock/orphaned_locks.h"
#include "compute/node/merge_queue.h"
#include "compute/session/links.h"
#include "compute/session/return_waits.h"
#include "compute/session/running_operations.h"
#include "compute/session/servers.h"
#include "compute/session/store_clock.h"
#include "compute/session/store_events.h"
#include "proto/leaf.h"
#include "proto/region.h"

namespace gossamer {

struct TreeOptions {
  uint64_t cache_bytes = uint64_t{256} << 20;
  uint32_t lock_timeout_ms = 10'000;
  // For so long operations wait for a memory server that is to come back with its memory.
  uint32_t reconnect_ms = 10'000;
  // For so long writes that got no memory wait for other compute servers to give some back, once in
  // a while. They learn of a refusal when they renew their leases.
  uint32_t memory_patience_ms = 2500;
  // Such writes do neither wait nor have this compute server give back what it keeps: the program
  // makes room, and keeps memory of the sizes that it needs.
  bool makes_room = false;
  uint64_t seed = 0;  // for all random choices; 0: a new one each time
};

struct StoreState {
  // `store_events` outlives the sessions.
  StoreState(const StoreParameters& store_parameters, const TreeOptions& tree_options,
             StoreEvents& store_events)
      : events(store_events),
        parameters(store_parameters),
        geometry(store_parameters),
        inline_limits{geometry.max_suffix_bytes(), geometry.max_suffix_bytes(true),
                      store_parameters.inline_value_bytes},
        options(tree_options),
        seeds(options.seed != 0 ? options.seed : RandomId()),
        cache(options.cache_bytes),
        references(options.cache_bytes / kReferenceShare),
        fill(cache, store_parameters.node_bytes),
        allocator(servers, events, store_parameters.node_bytes, seeds,
                  std::chrono::milliseconds(options.makes_room ? 0 : options.memory_patience_ms),
                  options.makes_room) {
    // Until the lease began, the memory server waited for no pointer that is here (rule R9).
    allocator.ListenToNewLeases([this](uint64_t) { cache.Clear(); });
  }

  // The references of values in blocks take so much beside the cache of internal nodes, at most: a
  // quarter of it.
  static constexpr uint64_t kReferenceShare = 4;

  StoreEvents& events;
  const StoreParameters parameters;
  const LeafGeometry geometry;
  const InlineLimits inline_limits;
  const TreeOptions options;
  std::atomic<uint64_t> seeds;  // each session takes one
  Servers servers;
  ReturnWaits return_waits;
  StoreClock clock;
  RunningOperations running;
  NodeCache cache;
  ReferenceCache references;
  FillPlan fill;
  LockTable locks;
  OrphanedLocks orphans{events};  // declared after `locks`, whose places they close
  LeaseStatus leases;
  RemoteAllocator allocator;
  MergeQueue merges{events};
  SessionCounts counts;
};

}  // namespace gossamer
