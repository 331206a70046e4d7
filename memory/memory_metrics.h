// What a memory server reports at its admin endpoint, as metric families and as JSON.
//
// Thread-safety: no shared state. Cost: allocations for each figure; nothing waits.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "memory/control_service.h"
#include "memory/memory_facts.h"
#include "proto/control.h"

namespace gossamer {

// One moment.
struct MemoryFigures {
  control::StatReply stat;
  std::vector<ClientInForce> clients;
};

std::vector<prometheus::MetricFamily> MemoryFamilies(const MemoryFacts& facts,
                                                     const MemoryFigures& figures);

// The fields store, fabric, servers and leases of /state (docs/metrics.md).
nlohmann::ordered_json MemoryState(const MemoryFacts& facts, const MemoryFigures& figures);

}  // namespace gossamer
