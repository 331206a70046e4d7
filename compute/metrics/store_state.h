// A store's description (gossamer/store.h) as JSON.
//
// Thread-safety: no shared state. `Store::Stat` waits for memory servers: call it in a thread that
// may wait, now and then, and give an admin callback a copy of its result.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "gossamer/store.h"

namespace gossamer {

// The field hot_leaves, which takes no time.
nlohmann::ordered_json HotLeavesState(const Store& store);

// The fields store, fabric and servers of /state (docs/metrics.md).
nlohmann::ordered_json StatState(const StoreStat& stat);

}  // namespace gossamer
