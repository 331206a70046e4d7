// Memory that has been used before, so often that the generations of its pointers are nearly used
// up.
#pragma once

#include <cstdint>

#include "common/fabric/sim/sim.h"
#include "common/status.h"
#include "proto/store_record.h"

namespace gossamer::simulator {

// All free memory of the store's memory servers has been nodes, the last ones of that generation.
// Blocks.
// Requires (unchecked): no faults yet.
Status WearMemory(SimNetwork& network, const StoreRecord& record, uint64_t chunk_bytes,
                  uint8_t generation);

}  // namespace gossamer::simulator
