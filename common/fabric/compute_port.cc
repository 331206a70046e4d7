#include "common/fabric/compute_port.h"

#include <fmt/core.h>

namespace gossamer {

Error NotConnected(ServerId server) {
  return MakeError(Code::kInvalidArgument,
                   fmt::format("memory server {} is not connected", ToInteger(server)));
}

Status CheckPathMtu(const ComputePortOptions& options, uint32_t path_mtu,
                    const std::string& address) {
  if (path_mtu >= options.least_path_mtu) return Ok();
  return MakeError(
      Code::kUnsupported,
      fmt::format("nodes of {} bytes, and a path to {} with an MTU of {}: a node must be written "
                  "in one packet; raise the MTU, or create the store with a smaller --node_bytes",
                  options.least_path_mtu, address, path_mtu));
}

}  // namespace gossamer
