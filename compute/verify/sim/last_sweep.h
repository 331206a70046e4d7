// The very end of a run: nobody has the store open any more, so a sweep gives back all that is not part of the tree.
#pragma once

#include <cstdint>

#include "compute/verify/sim/client.h"

namespace gossamer::simulator {

// Client `number` sweeps, and walks the tree. Then nothing is lost on any memory server, and everything is accounted for.
// Findings go to the scene's verdict.
// Requires: all other clients are closed, their leases have ended, and faults are off.
void SweepAtEnd(Scene& scene, uint32_t number);

}  // namespace gossamer::simulator
