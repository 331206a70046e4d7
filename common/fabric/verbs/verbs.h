// The RDMA fabric (hardware and SoftRoCE). fabric.h is its interface, CONTRACT.md lists its guarantees.
#pragma once

#include <memory>

#include "common/fabric/fabric.h"

namespace gossamer::verbs {

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options);
Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options);

}  // namespace gossamer::verbs
