// A memory server inside this process, for a compute server that does not know the memory server's
// code. `memory/` implements it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/granted_memory.h"
#include "common/on_chip_locks.h"
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

// Clients renew their leases four times as often. Longer than a busy machine deschedules a thread.
inline constexpr uint32_t kDefaultLeaseMs = 2000;

// Memory of this process that outlives the memory servers on it, which come one after the other:
// for the simulator. What a file does for processes (memory/region_file.h).
class EmbeddedRegion {
 public:
  virtual ~EmbeddedRegion() = default;
  // The server on it has ended, perhaps in the middle of anything.
  virtual void EndLife() = 0;
  // Incarnations of the servers that have ended on it, the last one first.
  virtual std::vector<uint64_t> earlier() const = 0;
  // The store's record, as one of them has noted it last; or empty.
  virtual std::string record() const = 0;
  virtual void NoteRecord(std::string_view text) = 0;
};

// What a store's record says of it in place of a path.
inline constexpr std::string_view kKeptInMemory = "memory";

// A new one, for a server with so much memory.
Result<std::unique_ptr<EmbeddedRegion>> NewEmbeddedRegion(uint64_t memory_bytes);

struct EmbeddedMemoryOptions {
  uint64_t memory_bytes = uint64_t{1} << 30;
  StoreParameters parameters;
  uint64_t chunk_bytes = 0;       // 0: chosen from memory_bytes, as `gossamer-memory` does
  uint64_t lock_table_bytes = 0;  // 0: the default of `gossamer-memory`
  // Where death cannot be observed, a client that is silent for so long is fenced, and others may
  // take its locks; 0: never.
  uint32_t lease_ms = kDefaultLeaseMs;
  OnChipLocks on_chip_locks = OnChipLocks::kIfPossible;
  // Get all memory from the machine at start, or fail. Otherwise each page at its first use.
  // Reports progress on stderr if it takes long. The simulator's memory is not touched.
  bool touch = false;
  std::string listen;  // as in MemoryPortOptions
  // The file that the memory lives in, so that a server goes on with it after this one's end, in
  // any process (memory/region_file.h). Empty: none.
  std::string region = {};
  // In place of such a file: by NewEmbeddedRegion(memory_bytes). It outlives the server.
  EmbeddedRegion* kept = nullptr;
  // If set, the server joins a store of the bootstrap, which outlives it. If null, it is the server
  // in `identity`, of a store that no other process finds.
  Bootstrap* bootstrap = nullptr;
  // If set, the server lives in this simulated network instead of in shm. The network outlives the
  // server.
  SimulatedNetwork* network = nullptr;
  // The server's clock, in microseconds since 1970, in place of the machine's.
  std::function<uint64_t()> clock = {};
  MemberIdentity identity;  // with a new store id or incarnation in place of 0
};

// What a memory server that has come back has found of what it holds (memory/region_checker.h).
struct RegionCheck {
  uint64_t bytes = 0;  // of nodes, checked
  uint64_t total_bytes = 0;
  uint64_t damaged = 0;  // parts of nodes, and value blocks
  bool is_over = false;

  friend bool operator==(const RegionCheck&, const RegionCheck&) = default;
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
  // nullopt unless it has come back.
  virtual std::optional<RegionCheck> region_check() const = 0;
};

// For clients in this process; with a bootstrap, in the store "default".
Result<std::unique_ptr<EmbeddedMemory>> StartEmbeddedMemory(const EmbeddedMemoryOptions& options);

// Starts all memory servers of a store in `each.network`, without a bootstrap: `servers` of them,
// alike but for their numbers, and for the memory of server 0 if `bytes_of_first` is given.
// Completes `record`, whose `store` and `store_id` are given. If `kept` is given, each has a region
// there, by its number, which outlives it; then it is to come back with that.
Result<std::vector<std::unique_ptr<EmbeddedMemory>>> StartSimulatedMemory(
    EmbeddedMemoryOptions each, uint32_t servers, StoreRecord& record,
    std::optional<uint64_t> bytes_of_first = std::nullopt,
    std::vector<std::unique_ptr<EmbeddedRegion>>* kept = nullptr);

}  // namespace gossamer
