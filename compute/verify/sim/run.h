// One run: a store of several memory servers and many clients in one simulated network, from the first registration
// to the last check.
//
// Everything happens in the calling thread, event by event: the network names the endpoint that has something to
// report, and the session that owns it runs its coroutines once. When all have done their operations, a last client
// reads every key and walks the tree. A run that stands still is a finding like any other.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "compute/verify/sim/counts.h"
#include "compute/verify/sim/plan.h"

namespace gossamer::simulator {

struct RunResult {
  std::vector<std::string> problems;  // the first of them; none: nothing is wrong
  uint64_t hash = 0;  // of all that happened: the same whenever the same plan is run
  RunCounts counts;
};

// Runs it. With `trace`, tells everything that happens in the order of virtual time.
RunResult RunPlan(const Plan& plan, std::ostream* trace);

}  // namespace gossamer::simulator
