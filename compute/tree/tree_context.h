// TreeContext: what the parts of a session's tree share.
//
// Each part keeps a reference to it, and to the parts below it; docs/architecture.md draws them.
#pragma once

#include <string>

#include "common/status.h"
#include "common/task.h"
#include "compute/allocation/remote_allocator.h"
#include "compute/cache/node_cache.h"
#include "compute/counters/session_counts.h"
#include "compute/lock/remote_lock.h"
#include "compute/node/block_guesses.h"
#include "compute/node/block_reader.h"
#include "compute/node/descent.h"
#include "compute/node/node_reader.h"
#include "compute/node/session_clock.h"
#include "compute/node/store_state.h"
#include "compute/node/tree_events.h"
#include "compute/session/links.h"
#include "compute/session/pauses.h"

namespace gossamer {

struct TreeContext {
  TreeContext(StoreState& store_state, Scheduler& scheduler, TreeEvents& tree_events);
  TreeContext(const TreeContext&) = delete;
  TreeContext& operator=(const TreeContext&) = delete;

  const LeafGeometry& geometry() const { return store.geometry; }
  // Errors: InvalidArgument for a key that the store cannot hold.
  Status CheckKey(KeyView key) const;

  StoreState& store;
  RunningOperations::OfSession running;
  SessionFigures figures;
  LiveCounters& counters = figures.counters;
  Pauses pauses;
  SessionClock clock;
  Links links;
  SessionCache cache;
  SessionAllocator memory;
  RemoteLocks locks;
  NodeReader nodes;
  BlockReader blocks;
  BlockGuesses guesses;
  TreeEvents& events;
  Descent descent;
};

}  // namespace gossamer
