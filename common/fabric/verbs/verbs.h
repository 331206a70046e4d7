// The RDMA fabric (hardware and SoftRoCE): see fabric.h for the contract and CONTRACT.md for what
// it guarantees.
#pragma once

#include <memory>

#include "common/fabric/fabric.h"

namespace gossamer::verbs {

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options);
Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options);

}  // namespace gossamer::verbs
