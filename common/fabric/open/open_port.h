// Opens the ports of a fabric that is chosen at run time.
#pragma once

#include <memory>

#include "common/fabric/compute_port.h"
#include "common/fabric/fabric.h"
#include "common/fabric/memory_port.h"
#include "common/status.h"

namespace gossamer {

// Errors: InvalidArgument as of CheckConnectionTimeout and CheckRdmaOptions, for a compute server
// without a uuid, and for FabricKind::kSim without a network; else as of the fabric.
Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(FabricKind kind,
                                                   const MemoryPortOptions& options);
Result<std::unique_ptr<ComputePort>> OpenComputePort(FabricKind kind,
                                                     const ComputePortOptions& options);

}  // namespace gossamer
