// One run: a store of several memory servers and many clients in one simulated network, from the
// first registration to the last check.
//
// Everything happens in the calling thread, event by event. The network names the endpoint with
// something to report, and the session that owns it runs its coroutines once. When all operations
// are done, a last client reads every key and walks the tree. A run that makes no progress is a
// finding too.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "compute/verify/sim/counts.h"
#include "compute/verify/sim/plan.h"

namespace gossamer::simulator {

struct RunResult {
  std::vector<std::string> problems;  // the first ones; empty: nothing is wrong
  uint64_t hash = 0;                  // of all that happened; equal for every run of the same plan
  RunCounts counts;
};

// Runs the plan. With `trace`, prints all events in the order of virtual time.
RunResult RunPlan(const Plan& plan, std::ostream* trace);

}  // namespace gossamer::simulator
