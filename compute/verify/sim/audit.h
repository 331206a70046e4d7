// The end of a run: whatever the clients did, the store they leave behind must be valid.
#pragma once

#include <memory>
#include <span>

#include "compute/verify/sim/client.h"
#include "compute/verify/sim/run.h"

namespace gossamer::simulator {

// Live clients that were out of reach must be able to write again at once, and no operation may
// wait for a lock. Where memory servers have come back, clients have leases with them again.
void CheckWhoStayed(const Membership::Memory& memory,
                    std::span<const std::unique_ptr<SimulatedClient>> clients, Scene& scene);
// Client `number`, which belongs to the audit, reads every key into the history and walks the tree.
// Then the history is checked. Findings go to the scene's verdict.
// Requires (unchecked): all other clients are idle, the leases of the dead have ended, and faults
// are off.
void Audit(Scene& scene, uint32_t number, RunCounts& counts);
// Checks only the history, of a run that leaves no complete tree.
void AuditHistory(Scene& scene, RunCounts& counts);

}  // namespace gossamer::simulator
