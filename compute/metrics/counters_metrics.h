// Counters (gossamer/counters.h) as metric families and as JSON.
//
// Thread-safety: no shared state. Cost: some allocations for each figure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "common/admin/metrics.h"
#include "gossamer/counters.h"

namespace gossamer {

void AddCounters(const Counters& counters, Families& families);

// The fields operations, cache, locks and rereads of /state (docs/metrics.md).
nlohmann::ordered_json CountersState(const Counters& counters);

}  // namespace gossamer
