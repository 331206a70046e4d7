// The fabric contract: the interface that carries one-sided verbs between compute and memory
// servers.
//
// A memory server opens a `MemoryPort`: a region and a lock table that clients reach with verbs,
// and a control service that answers small messages. A compute server opens a `ComputePort`,
// connects it to memory servers, and gives each thread an `Endpoint`. An endpoint owns one queue
// pair to each connected memory server.
//
// Each subject has its header:
//   - verb.h: one verb; verb_table.h: the opcodes.
//   - work_request.h: what is posted (batches of verbs, control calls, queue pair requests).
//   - endpoint.h: posting, polling, awaiting; compute_port.h: connections, endpoints.
//   - memory_port.h: memory, control service, fences.
//   - This header: the names of the fabrics, and checks of options. open/open_port.h opens their ports.
//
// Callers may rely on the lines of CONTRACT.md and on nothing else.
//
// Cost: the data path calls only `Post` and `Poll`; neither allocates, locks or blocks.
// Thread-safety: ports are thread-safe; an endpoint, its buffers and batches belong to one thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/status.h"
#include "gossamer/rdma_options.h"

namespace gossamer {

enum class FabricKind : uint8_t { kShm, kVerbs, kSim };

// "shm" or "verbs". Programs never select the simulator by name: its callers create its network
// (sim.h).
Result<FabricKind> ParseFabricKind(std::string_view name);
std::string_view FabricKindName(FabricKind kind);

// Errors: InvalidArgument, naming the flag of programs: a value that no device has; anything but
// the defaults for a fabric without a device.
Status CheckRdmaOptions(FabricKind kind, const RdmaOptions& rdma);

// A lost peer is an error after so long: without a bound, waiting for it would never end.
// Errors: InvalidArgument outside 1 ms to 1 hour.
Status CheckConnectionTimeout(uint32_t timeout_ms);

}  // namespace gossamer
