// Rule M1 seen from both sides: what a client takes for its own, the memory server has granted it.
#pragma once

#include <memory>
#include <span>

#include "common/embedded_memory.h"
#include "compute/verify/sim/client.h"
#include "compute/verify/sim/verdict.h"

namespace gossamer::simulator {

// Tells the verdict of memory that a client counts as granted under its lease, and the server does not. That is never so, at
// any time: a client forgets memory before it gives it back or up. A server without memory here has died, a client too.
void CheckOwners(std::span<const std::unique_ptr<EmbeddedMemory>> memory,
                 std::span<const std::unique_ptr<SimulatedClient>> clients, Verdict& verdict);

}  // namespace gossamer::simulator
