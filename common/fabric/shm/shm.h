// The shared-memory fabric. common/fabric/ has its interface (fabric.h), CONTRACT.md lists its
// guarantees.
#pragma once

#include <memory>

#include "common/fabric/compute_port.h"
#include "common/fabric/memory_port.h"

namespace gossamer::shm {

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options);
Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options);

}  // namespace gossamer::shm
