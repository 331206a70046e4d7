// The litmus test of common/fabric/litmus.h, run by a memory server against itself over its real
// device before clients can find it, and the fallbacks if the device fails it.
//
// Fallbacks, cheapest first, each tested again: 1. the lock table in DRAM, so that both halves of
// each pair lie in one memory; 2. one verb at a time on each queue pair, which needs no ordering.
// The first is no remedy for WRITEs that overtake WRITEs, and none if locks must be on chip. A server
// that cannot even reach itself does not start.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/fabric/fabric.h"
#include "common/fabric/litmus.h"
#include "common/fabric/memory_port.h"
#include "common/status.h"
#include "gossamer/rdma_options.h"

namespace gossamer {

// Tests the memory server of `port`, which has started.
using LitmusRunner = std::function<Result<LitmusReport>(MemoryPort& port)>;

// Runs the test for at most a second, with two queue pairs of this process. It writes to the part
// of the region reserved for it, and leaves the lock table unchanged.
// Errors: those of connecting and of RunLitmus.
LitmusRunner LitmusOverFabric(FabricKind fabric, const RdmaOptions& rdma = {});

// How a memory server uses its device.
struct DeviceUse {
  OnChipLocks on_chip_locks = OnChipLocks::kIfPossible;
  bool one_verb_at_a_time = false;

  bool operator==(const DeviceUse&) const = default;
};

// What to try after `failed`, the test of `use` with the lock table placed as `locks`. Empty:
// nothing is left to try.
std::optional<DeviceUse> FallBack(DeviceUse use, LockTablePlacement locks,
                                  const LitmusReport& failed);

// What this use of the device means for people, after a failed test.
std::string_view FallbackText(const DeviceUse& use);

}  // namespace gossamer
