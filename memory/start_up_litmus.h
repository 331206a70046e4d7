// The litmus test of common/fabric/litmus.h as a memory server runs it: against itself, over its
// real device, before anybody can find it; and what it does when the device fails.
//
// Fallbacks, the cheaper first, each followed by another test: the lock table in DRAM, so that both
// halves of each pair lie in one memory; then one verb at a time on each queue pair, which needs no
// order.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/fabric/fabric.h"
#include "common/fabric/litmus.h"
#include "common/status.h"

namespace gossamer {

// Tests the memory server at `address`.
using LitmusRunner = std::function<Result<LitmusReport>(const std::string& address)>;

// Runs the test in at most a second, with two queue pairs of this process. It writes in the part of
// the region that is set aside for it, and leaves the lock table as it was. Errors are those of
// connecting and of RunLitmus.
LitmusRunner LitmusOverFabric(FabricKind fabric, const std::string& device);

// How a memory server uses its device.
struct DeviceUse {
  bool on_chip_locks = true;
  bool one_verb_at_a_time = false;

  bool operator==(const DeviceUse&) const = default;
};

// What to try when the test has failed with `use` and the lock table where `locks` says. Empty:
// nothing is left.
std::optional<DeviceUse> FallBack(DeviceUse use, LockTablePlacement locks);

// What it means to use the device so, after a failed test.
std::string_view FallbackText(const DeviceUse& use);

}  // namespace gossamer
