#include "common/fabric/shm/shm.h"

#include "common/fabric/shm/compute_port.h"
#include "common/fabric/shm/memory_port.h"

namespace gossamer::shm {

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options) {
  return ShmMemoryPort::Open(options);
}

Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options) {
  return ShmComputePort::Open(options);
}

}  // namespace gossamer::shm
