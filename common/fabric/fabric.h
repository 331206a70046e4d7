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
//   - This header: the names of the fabrics. open/open_port.h opens their ports.
//
// Callers may rely on the lines of CONTRACT.md and on nothing else. In short:
//   - On one endpoint and server, verbs of one batch and of consecutive batches take effect in
//     posted order for these pairs: WRITE then WRITE, WRITE then atomic, atomic then READ. A WRITE
//     after a READ or an atomic needs `Verb::fence`.
//   - Atomics are atomic among the verbs of one memory server. Only atomics change a word that atomics change.
//   - A READ may return any byte-wise mixture of what concurrent WRITEs leave.
//   - If a client dies, its WRITE of at most `Limits::path_mtu` bytes happens whole or not at all.
//   - Every verb ends with a status, within `connection_timeout_ms` if the peer is lost. The first failing
//     verb breaks the queue pair: all later ones on it end as `kFlushed` until `Endpoint::Reconnect`.
//
// Cost: the data path calls only `Post` and `Poll`; neither allocates, locks or blocks.
// Thread-safety: ports are thread-safe; an endpoint, its buffers and batches belong to one thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/status.h"

namespace gossamer {

enum class FabricKind : uint8_t { kShm, kVerbs, kSim };

// "shm" or "verbs". Programs never select the simulator by name: its callers create its network
// (sim.h).
Result<FabricKind> ParseFabricKind(std::string_view name);
std::string_view FabricKindName(FabricKind kind);

}  // namespace gossamer
