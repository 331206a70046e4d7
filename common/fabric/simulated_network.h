// What opens the ports of FabricKind::kSim. The simulator's network (sim/sim.h) implements it, so
// that no shipped program links the simulator.
#pragma once

#include <memory>

#include "common/fabric/compute_port.h"
#include "common/fabric/memory_port.h"
#include "common/status.h"

namespace gossamer {

class SimulatedNetwork {
 public:
  virtual Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options) = 0;
  virtual Result<std::unique_ptr<ComputePort>> OpenComputePort(
      const ComputePortOptions& options) = 0;

 protected:
  ~SimulatedNetwork() = default;
};

}  // namespace gossamer
