// How many clients this process has descriptors for (`ulimit -n`).
//
// Thread-safety: no shared state but the process's own limit. Cost: a few system calls.
#pragma once

#include <cstdint>

namespace gossamer::gateway {

// Raises the soft limit to what so many clients need beside all else, up to the hard limit. Never
// lowers it.
void RaiseDescriptorLimit(uint64_t clients);

// How many clients find room within the soft limit, beside what is open now and what may still be
// opened: connections to memory servers that join, those of the admin endpoint, and one that is
// only told that there are too many.
uint64_t RoomForClients();

// The soft limit.
uint64_t DescriptorLimit();

}  // namespace gossamer::gateway
