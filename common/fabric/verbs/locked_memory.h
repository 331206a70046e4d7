// The limit on locked memory (ulimit -l) before it is met: registered memory and the rings of queue
// pairs are locked, and a failure in the middle of a run says less than one at its start.
#pragma once

#include <cstdint>
#include <limits>

#include "common/status.h"

namespace gossamer::verbs {

struct LockedMemory {
  uint64_t limit = std::numeric_limits<uint64_t>::max();  // bytes
  uint64_t locked = 0;                                    // bytes, already
};

// Of this process. Without a limit if it may exceed it (CAP_IPC_LOCK).
LockedMemory OwnLockedMemory();

// What `endpoints` threads of a client lock, each with queue pairs to `servers` memory servers: a
// slab of buffers, and the rings of each queue pair.
uint64_t BytesLockedBy(uint32_t endpoints, uint32_t servers);

// Errors: NoResources, with what to do, if so many bytes more exceed the limit.
Status CheckLockedMemory(const LockedMemory& memory, uint64_t more_bytes);

}  // namespace gossamer::verbs
