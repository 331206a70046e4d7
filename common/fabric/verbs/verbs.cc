#include "common/fabric/verbs/verbs.h"

#include "common/fabric/verbs/compute_port.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/memory_port.h"

namespace gossamer::verbs {

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options) {
  BOOST_OUTCOME_TRYV(CheckDevices(options.device));
  BOOST_OUTCOME_TRY(port, VerbsMemoryPort::Open(options));
  return std::unique_ptr<MemoryPort>(std::move(port));
}

Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options) {
  BOOST_OUTCOME_TRYV(CheckDevices(options.device));
  if (options.client_uuid == 0) {
    return MakeError(Code::kInvalidArgument, "a compute port needs a client_uuid other than 0");
  }
  return std::unique_ptr<ComputePort>(std::make_unique<VerbsComputePort>(options));
}

}  // namespace gossamer::verbs
