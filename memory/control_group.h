// What the control groups of this process (cgroups, versions 1 and 2: containers, systemd units)
// let it have. A process that exceeds such a limit is killed at a touch of its memory, at any time.
//
// Errors: none. What cannot be read sets no limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gossamer {

// One limit on a control group that this process is in, or on one above it.
struct ControlGroupLimit {
  std::string file;    // that says so, as "/sys/fs/cgroup/a/memory.max"
  uint64_t bytes = 0;  // the limit
  uint64_t used = 0;   // of it, without what the kernel takes back when it is short (page cache)

  uint64_t room() const { return bytes > used ? bytes - used : 0; }
};

// All limits, from the process's own groups upwards. `root` stands before /proc and /sys: for tests.
std::vector<ControlGroupLimit> ReadControlGroupLimits(const std::string& root = {});

}  // namespace gossamer
