#include "common/fabric/verbs.h"

namespace gossamer::verbs {

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions&) {
  return MakeError(Code::kUnsupported, "not built yet");
}

Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions&) {
  return MakeError(Code::kUnsupported, "not built yet");
}

}  // namespace gossamer::verbs
