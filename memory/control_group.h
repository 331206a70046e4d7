// Memory limits from the control groups of this process (cgroups versions 1 and 2: containers,
// systemd units). The kernel kills a process that touches memory beyond such a limit, at any time.
//
// Errors: none. A limit that cannot be read is no limit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gossamer {

// A limit on a control group of this process, or on one of its ancestors.
struct ControlGroupLimit {
  std::string file;    // source of the limit, such as "/sys/fs/cgroup/a/memory.max"
  uint64_t bytes = 0;  // the limit
  uint64_t used = 0;   // without what the kernel can reclaim (page cache)

  uint64_t room() const { return bytes > used ? bytes - used : 0; }
};

// All limits, from the process's own groups upwards. `root` prefixes /proc and /sys: for tests.
std::vector<ControlGroupLimit> ReadControlGroupLimits(const std::string& root = {});

}  // namespace gossamer
