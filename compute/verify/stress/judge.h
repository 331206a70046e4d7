// The judgement of a stress run: logs, final reads and the tree.
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

// Evaluates what the clients of all eras reported.
void JudgeReports(const StressOptions& options, const RunBoard& board, double run_seconds,
                  Findings& findings);

// Evaluates the errors of all clients, and which of `faults` explains them.
void JudgeFailures(const StressOptions& options, const std::string& directory,
                   std::span<const Fault> faults, Findings& findings);

// Judges the histories of one era after its clients have ended it. One get of each hot key closes
// them. `is_whole`: no memory server of the store was lost, so that all keys must be readable and
// the tree is checked. Otherwise a get may find a key unreachable.
void JudgeEra(Store& store, const StressOptions& options, const std::string& directory,
              uint32_t era, bool is_whole, Findings& findings);

}  // namespace gossamer::stress
