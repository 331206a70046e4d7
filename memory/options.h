// Options of a memory server, and their validation.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/bootstrap/membership.h"
#include "common/embedded_memory.h"
#include "common/fabric/fabric.h"
#include "common/numa.h"
#include "common/status.h"
#include "gossamer/rdma_options.h"
#include "memory/start_up_litmus.h"
#include "proto/region.h"

namespace gossamer {

inline constexpr uint64_t kDefaultLockTableBytes = 256 << 10;
inline constexpr uint32_t kMinLeaseMs = 100;
// Of `gossamer-memory`, whose clients are on other machines: a link that flaps for some seconds
// should not cost them their leases.
inline constexpr uint32_t kDefaultProgramLeaseMs = 5000;

struct MemoryServerOptions : EmbeddedMemoryOptions {
  FabricKind fabric = FabricKind::kShm;
  RdmaOptions rdma = {};
  uint32_t connection_timeout_ms = 2000;
  bool huge_pages = true;
  NumaWish numa = {};
  bool in_process_only = false;  // shm: for clients of this process alone
  // With a bootstrap; its fabric and parameters are those above. During the whole start,
  // `is_to_stop` is called now and then, by any thread.
  JoinOptions join = {};
  // Of a region that outlives the server: the set of the saved file that it was loaded from, if
  // nobody has served it since; 0: it was not loaded.
  uint64_t loaded_set = 0;
  bool is_of_last_life = false;  // as in Returning, as is the next
  uint64_t been_in = 0;
  // Called before clients can reach a life of the server. An error ends its start.
  std::function<Status(const MemberIdentity&)> on_begin = {};
  // Called with the store's record whenever that has changed, and with this server's entry, by any
  // thread; first with the record that it joined.
  std::function<void(const StoreRecord&, const MemberRecord*)> on_record = {};
  bool litmus = true;               // verbs: test at start-up whether the device orders
  LitmusRunner litmus_runner = {};  // for tests: replaces the test, on every fabric
};

// memory_bytes / 64 rounded down to a power of two, within 256 KiB and 32 MiB.
uint64_t DefaultChunkBytes(uint64_t memory_bytes);

// Fills in defaults, rounds sizes and makes paths absolute.
// Errors: InvalidArgument; the message names the flag and says what to give instead.
Result<MemoryServerOptions> CompleteOptions(MemoryServerOptions options);

}  // namespace gossamer
