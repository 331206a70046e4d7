#include "common/fabric/open/open_port.h"

#include <fmt/core.h>

#include <string>

#include "common/fabric/shm/compute_port.h"
#include "common/fabric/shm/memory_port.h"
#include "common/fabric/simulated_network.h"
#include "common/fabric/verbs/compute_port.h"
#include "common/fabric/verbs/memory_port.h"

namespace gossamer {
namespace {

constexpr uint32_t kMaxTimeoutMs = 3'600'000;  // far from the largest int

// Without a bound, waiting for a lost peer would never end.
Status CheckTimeout(uint32_t timeout_ms) {
  if (timeout_ms != 0 && timeout_ms <= kMaxTimeoutMs) return Ok();
  return MakeError(Code::kInvalidArgument, fmt::format("connection timeout of {} ms: give 1 to {}",
                                                       timeout_ms, kMaxTimeoutMs));
}

Error NoNetwork() {
  return MakeError(Code::kInvalidArgument, "the simulated fabric needs a network");
}

}  // namespace

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(FabricKind kind,
                                                   const MemoryPortOptions& options) {
  BOOST_OUTCOME_TRYV(CheckTimeout(options.connection_timeout_ms));
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
  BOOST_OUTCOME_TRYV(CheckTimeout(options.connection_timeout_ms));
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
