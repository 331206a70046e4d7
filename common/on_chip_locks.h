// Whether a memory server keeps its lock table in the memory of its RDMA device.
#pragma once

#include <cstdint>

namespace gossamer {

enum class OnChipLocks : uint8_t {
  kNever,
  kIfPossible,  // smaller, if it does not fit as it is; in DRAM, if none fits
  kRequired,    // smaller, if it does not fit as it is
};

}  // namespace gossamer
