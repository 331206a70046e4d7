// The end of a run: whatever the clients did, the store that they leave behind is whole.
#pragma once

#include "compute/verify/sim/client.h"
#include "compute/verify/sim/run.h"

namespace gossamer::simulator {

// A client of its own, of that number, reads every key into the history and walks the tree; then the history is
// checked. All others are idle, the leases of the dead have ended, and the network has no faults any more. What is
// wrong goes to the scene's verdict.
void Audit(Scene& scene, uint32_t number, RunCounts& counts);
// The history alone, of a run at whose end there is no whole tree.
void AuditHistory(Scene& scene, RunCounts& counts);

}  // namespace gossamer::simulator
