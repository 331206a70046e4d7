// A memory server inside this process: the seam through which a compute server gets one without
// knowing the memory server's code. Implemented by `memory/`.
#pragma once

#include <cstdint>
#include <memory>
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

// What a memory server may have, if the size of its chunks is chosen from that: a header and one chunk at least.
inline constexpr uint64_t kLeastMemoryBytes = kHeapOffset + (256 << 10);
inline constexpr uint64_t kMostMemoryBytes = kMaxOffset + 1;

// Which memory server of which store.
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
  uint32_t lease_ms = 0;          // likewise; of clients whose death is not seen otherwise
  bool on_chip_locks = true;      // in device memory, where there is any
  std::string listen;             // path of its socket; empty: a new one
  // With one, the server joins the bootstrap's store "default", for clients in this process;
  // without, it is the server that `identity` says, of a store that nobody else finds. Outlives the server.
  Bootstrap* bootstrap = nullptr;
  // With one, the server lives in this simulated network, which outlives it, instead of in shm.
  SimulatedNetwork* network = nullptr;
  EmbeddedIdentity identity;
};

// Runs until destroyed.
class EmbeddedMemory {
 public:
  virtual ~EmbeddedMemory() = default;
  // Where a ComputePort of its fabric in this process reaches it.
  virtual std::string address() const = 0;
  // "2 MB pages", or why not.
  virtual std::string memory_description() const = 0;
  virtual GrantedMemory Granted() const = 0;
};

Result<std::unique_ptr<EmbeddedMemory>> StartEmbeddedMemory(const EmbeddedMemoryOptions& options);

// All memory servers of a store in `each.network`, of which no bootstrap knows: so many, alike but for their numbers.
// Completes `record`, of which `store` and `store_id` are given.
Result<std::vector<std::unique_ptr<EmbeddedMemory>>> StartSimulatedMemory(
    EmbeddedMemoryOptions each, uint32_t servers, StoreRecord& record);

}  // namespace gossamer
