// Options of a memory server, and their validation.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/bootstrap/membership.h"
#include "common/embedded_memory.h"
#include "common/fabric/fabric.h"
#include "common/status.h"
#include "memory/start_up_litmus.h"
#include "proto/region.h"

namespace gossamer {

inline constexpr uint64_t kDefaultLockTableBytes = 256 << 10;
// Clients renew four times as often. Longer than a busy machine deschedules a thread.
inline constexpr uint32_t kDefaultLeaseMs = 2000;
inline constexpr uint32_t kMinLeaseMs = 100;

struct MemoryServerOptions {
  std::string store = "default";
  FabricKind fabric = FabricKind::kShm;
  uint64_t memory_bytes = 0;      // the region, rounded down to whole pages
  uint64_t chunk_bytes = 0;       // 0: DefaultChunkBytes
  uint64_t lock_table_bytes = 0;  // 0: kDefaultLockTableBytes
  StoreParameters parameters;
  EmbeddedIdentity identity;  // of a server without a bootstrap
  std::string listen;         // as in MemoryPortOptions
  std::string device;
  bool huge_pages = true;
  // Get all memory from the machine at start, or fail. Otherwise each page at its first use.
  // Reports progress on stderr if it takes long. The simulator's memory is not touched.
  bool touch = false;
  // Called now and then during the start, by any thread; true ends the start with an error.
  std::function<bool()> is_to_stop = {};
  bool on_chip_locks = true;
  // verbs: a client that is silent for so long is fenced, and others may take its locks; 0: never.
  uint32_t lease_ms = kDefaultLeaseMs;
  bool in_process_only = false;         // shm: for clients of this process alone
  SimulatedNetwork* network = nullptr;  // sim: as in MemoryPortOptions
  bool replace_store = false;           // as in JoinOptions
  bool forget_dead = false;             // as in JoinOptions
  CreateMode create = CreateMode::kAuto;
  bool litmus = true;          // verbs: test at start-up whether the device orders
  LitmusRunner litmus_runner;  // for tests: replaces the test, on every fabric
};

// memory_bytes / 64 rounded down to a power of two, within 256 KiB and 32 MiB.
uint64_t DefaultChunkBytes(uint64_t memory_bytes);

// Fills in defaults, rounds sizes and makes paths absolute.
// Errors: InvalidArgument; the message names the flag and says what to give instead.
Result<MemoryServerOptions> CompleteOptions(MemoryServerOptions options);

}  // namespace gossamer
