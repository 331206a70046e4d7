#include "common/fabric/open/open_port.h"

#include "common/fabric/shm/compute_port.h"
#include "common/fabric/shm/memory_port.h"
#include "common/fabric/simulated_network.h"
#include "common/fabric/verbs/compute_port.h"
#include "common/fabric/verbs/memory_port.h"

namespace gossamer {
namespace {

Error NoNetwork() {
  return MakeError(Code::kInvalidArgument, "the simulated fabric needs a network");
}

}  // namespace

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(FabricKind kind,
                                                   const MemoryPortOptions& options) {
  BOOST_OUTCOME_TRYV(CheckConnectionTimeout(options.connection_timeout_ms));
  BOOST_OUTCOME_TRYV(CheckRdmaOptions(kind, options.rdma));
  switch (kind) {
    case FabricKind::kShm: return shm::OpenMemoryPort(options);
    case FabricKind::kVerbs: return verbs::OpenMemoryPort(options);
    case FabricKind::kSim:
      if (options.network == nullptr) return NoNetwork();
      return options.network->OpenMemoryPort(options);
  }
  return MakeError(Code::kInvalidArgument, "no such fabric");
}

Result<std::unique_ptr<ComputePort>> OpenComputePort(FabricKind kind,
                                                     const ComputePortOptions& options) {
  BOOST_OUTCOME_TRYV(CheckConnectionTimeout(options.connection_timeout_ms));
  BOOST_OUTCOME_TRYV(CheckRdmaOptions(kind, options.rdma));
  if (options.client_uuid == 0) {
    return MakeError(Code::kInvalidArgument, "client uuid 0: give this compute server a name");
  }
  switch (kind) {
    case FabricKind::kShm: return shm::OpenComputePort(options);
    case FabricKind::kVerbs: return verbs::OpenComputePort(options);
    case FabricKind::kSim:
      if (options.network == nullptr) return NoNetwork();
      return options.network->OpenComputePort(options);
  }
  return MakeError(Code::kInvalidArgument, "no such fabric");
}

}  // namespace gossamer
