// What a memory server is started with, and whether that makes sense.
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
// Clients renew four times as often. Longer than a busy machine keeps a thread from its processor.
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
  // Have all memory from the machine at start, or fail; else page by page when it is first used.
  // Says on stderr how far it is when that takes long. The simulator's memory is not touched.
  bool touch = false;
  // Asked now and then meanwhile, by any thread; true ends the start with an error.
  std::function<bool()> is_to_stop = {};
  bool on_chip_locks = true;
  // verbs: a client of which nothing is heard for so long is fenced, and its locks may be taken by
  // others; 0: never.
  uint32_t lease_ms = kDefaultLeaseMs;
  bool in_process_only = false;         // shm: for clients of this process alone
  SimulatedNetwork* network = nullptr;  // sim: as in MemoryPortOptions
  bool replace_store = false;           // as in JoinOptions
  bool forget_dead = false;             // likewise
  CreateMode create = CreateMode::kAuto;
  bool litmus = true;          // verbs: test at start-up whether the device orders
  LitmusRunner litmus_runner;  // for tests: runs in its place, on every fabric
};

// memory_bytes / 64 rounded down to a power of two, within 256 KiB and 32 MiB.
uint64_t DefaultChunkBytes(uint64_t memory_bytes);

// The options with the defaults filled in, sizes rounded and paths made absolute. InvalidArgument, with a sentence that
// names the flag and says what to give instead, when they make no memory server.
Result<MemoryServerOptions> CompleteOptions(MemoryServerOptions options);

}  // namespace gossamer
