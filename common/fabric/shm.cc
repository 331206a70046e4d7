#include "common/fabric/shm.h"

namespace gossamer::shm {

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions&) {
  return MakeError(Code::kUnsupported, "not built yet");
}

Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions&) {
  return MakeError(Code::kUnsupported, "not built yet");
}

}  // namespace gossamer::shm
