// The shared-memory fabric: see fabric.h for the contract and CONTRACT.md for what it guarantees.
#pragma once

#include <memory>

#include "common/fabric/fabric.h"

namespace gossamer::shm {

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options);
Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options);

}  // namespace gossamer::shm
