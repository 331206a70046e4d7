// A memory server inside this process, for a compute server that does not know the memory server's
// code. `memory/` implements it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/granted_memory.h"
#include "common/status.h"
#include "proto/region.h"
#include "proto/remote_ptr.h"
#include "proto/store_record.h"

namespace gossamer {

class Bootstrap;
class SimulatedNetwork;

// The limits of a memory server's memory if the chunk size is chosen from it: at least a header and
// one chunk.
inline constexpr uint64_t kLeastMemoryBytes = kHeapOffset + (256 << 10);
inline constexpr uint64_t kMostMemoryBytes = kMaxOffset + 1;

// Identifies a memory server and its store.
struct EmbeddedIdentity {
  ServerId id{0};
  uint64_t store_id = 0;     // 0: a new one
  uint64_t incarnation = 0;  // 0: a new one
};

struct EmbeddedMemoryOptions {
  uint64_t memory_bytes = uint64_t{1} << 30;
  StoreParameters parameters;
  uint64_t chunk_bytes = 0;       // 0: chosen from memory_bytes, as `gossamer-memory` does
  uint64_t lock_table_bytes = 0;  // 0: the default of `gossamer-memory`
  uint32_t lease_ms = 0;          // likewise; for clients whose death cannot be observed
  bool on_chip_locks = true;      // in device memory, if there is any
  std::string listen;             // path of its socket; empty: a new one
  // If set, the server joins the bootstrap's store "default", for clients in this process. If null,
  // it is the server in `identity`, of a store that no other process finds. The bootstrap outlives
  // the server.
  Bootstrap* bootstrap = nullptr;
  // If set, the server lives in this simulated network instead of in shm. The network outlives the
  // server.
  SimulatedNetwork* network = nullptr;
  EmbeddedIdentity identity;
};

// Runs until destroyed.
class EmbeddedMemory {
 public:
  virtual ~EmbeddedMemory() = default;
  // The address for a ComputePort of its fabric in this process.
  virtual std::string address() const = 0;
  // "2 MB pages", or why not.
  virtual std::string memory_description() const = 0;
  virtual GrantedMemory Granted() const = 0;
};

Result<std::unique_ptr<EmbeddedMemory>> StartEmbeddedMemory(const EmbeddedMemoryOptions& options);

// Starts all memory servers of a store in `each.network`, without a bootstrap: `servers` of them,
// alike but for their numbers, and for the memory of server 0 if `bytes_of_first` is given.
// Completes `record`, whose `store` and `store_id` are given.
Result<std::vector<std::unique_ptr<EmbeddedMemory>>> StartSimulatedMemory(
    EmbeddedMemoryOptions each, uint32_t servers, StoreRecord& record,
    std::optional<uint64_t> bytes_of_first = std::nullopt);

}  // namespace gossamer
