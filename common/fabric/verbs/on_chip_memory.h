// A lock table in a device's own memory.
#pragma once

#include <cstdint>
#include <string>

#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/resources.h"
#include "common/status.h"

namespace gossamer::verbs {

// What clients may do with the memory of a server.
inline constexpr int kRemoteRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

// 4,096 locks. A smaller table is not worth the chip: writers of different nodes would wait for
// each other too often.
inline constexpr uint64_t kLeastOnChipBytes = uint64_t{32} << 10;

// Zeroed, and registered from address 0.
struct OnChipMemory {
  DeviceMemory memory;
  MemoryRegion region;  // behind its memory: it is destroyed first
  uint64_t bytes = 0;
  std::string why;  // it is smaller than was wished, with what that means; or empty
};

// As many of the `wanted` bytes, a power of two, as fit: they are halved until they do.
// Errors: Unsupported, with the reason, if not even kLeastOnChipBytes fit, or all of a smaller
// table.
Result<OnChipMemory> AllocateOnChip(const Device& device, uint64_t wanted);

}  // namespace gossamer::verbs
