// Rule M1 as it looks at one moment: who takes memory for its own, and what it is used for.
#pragma once

#include <memory>
#include <span>

#include "common/embedded_memory.h"
#include "common/fabric/sim/sim.h"
#include "compute/verify/sim/client.h"
#include "compute/verify/sim/verdict.h"
#include "proto/region.h"

namespace gossamer::simulator {

// Tells the verdict of memory that a client counts as granted under its lease, and the server does
// not. That is never so, at any time: a client forgets memory before it gives it back or up. A
// server without memory here has died, a client too.
void CheckOwners(std::span<const std::unique_ptr<EmbeddedMemory>> memory,
                 std::span<const std::unique_ptr<SimulatedClient>> clients, Verdict& verdict);

// Tells the verdict of memory to which the tree leads and which a server counts as free, or as
// waiting for its owner; or to which the tree leads twice. That is never so: memory is removed from
// the tree before it is given back. Looks at nothing while a node is being written, or once a
// memory server has died.
void CheckUse(SimNetwork& network, std::span<const std::unique_ptr<EmbeddedMemory>> memory,
              const StoreParameters& parameters, Verdict& verdict);

}  // namespace gossamer::simulator
