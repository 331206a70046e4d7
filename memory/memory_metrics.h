// What a memory server reports at its admin endpoint, as metric families and as JSON.
//
// Thread-safety: no shared state. Cost: allocations for each figure; nothing waits.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/admin/program_admin.h"
#include "memory/memory_server.h"

namespace gossamer {

std::vector<prometheus::MetricFamily> MemoryFamilies(const MemoryReport& report);

// The fields store, fabric, servers and leases of /state (docs/metrics.md).
nlohmann::ordered_json MemoryState(const MemoryReport& report);

// What the admin endpoint of the program shows. `server` outlives what is returned. A request takes
// the control service's mutex for as long as it takes to copy its figures; verbs of clients do not
// need it.
ProgramAdmin::Served ServedBy(const MemoryServer& server);

}  // namespace gossamer
