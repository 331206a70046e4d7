// The judgement of a stress run: logs, last reads and the tree.
#pragma once

#include <span>
#include <string>

#include "compute/verify/stress/faults.h"
#include "compute/verify/stress/findings.h"
#include "compute/verify/stress/options.h"
#include "compute/verify/stress/worker.h"
#include "gossamer/store.h"

namespace gossamer::stress {

// Writes the stable keys of an era.
Status Preload(Store& store, const StressOptions& options, uint32_t era);

// What the clients of all eras have told.
void JudgeReports(const StressOptions& options, const RunBoard& board, double run_seconds,
                  Findings& findings);

// The errors of all clients, and which of `faults` explains them.
void JudgeFailures(const StressOptions& options, const std::string& directory,
                   std::span<const Fault> faults, Findings& findings);

// The histories of one era, whose clients have ended it, closed by one get of each hot key. `is_whole`: no memory
// server of its store was lost. Then all can be read, and the tree is checked; else a get may find a key out of reach.
void JudgeEra(Store& store, const StressOptions& options, const std::string& directory,
              uint32_t era, bool is_whole, Findings& findings);

}  // namespace gossamer::stress
