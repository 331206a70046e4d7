// The very end of a run: nobody has the store open any more, so a sweep gives back all that is not
// part of the tree. Where memory servers have died for good, a repair comes first.
#pragma once

#include <cstdint>
#include <functional>

#include "compute/verify/sim/client.h"

namespace gossamer::simulator {

// Client `number` sweeps, and walks the tree. Then nothing is lost on any memory server, and
// everything is accounted for. Findings go to the scene's verdict.
// Requires (unchecked): all other clients are closed, their leases have ended, and faults are off.
void SweepAtEnd(Scene& scene, uint32_t number);

// Client `number` repairs the tree. Returns false if not all of the store is left, or can be made
// whole. Findings go to the scene's verdict. `run_until` has all clients go on meanwhile.
bool RepairAtEnd(Scene& scene, uint32_t number,
                 const std::function<void(const std::function<bool()>&)>& run_until);

}  // namespace gossamer::simulator
