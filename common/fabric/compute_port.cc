#include "common/fabric/compute_port.h"

namespace gossamer {

Status CheckPathMtu(const ComputePortOptions& options, uint32_t path_mtu,
                    const std::string& address) {
  if (path_mtu >= options.least_path_mtu) return Ok();
  return MakeError(Code::kUnsupported,
                   "nodes of " + std::to_string(options.least_path_mtu) + " bytes, and a path to " +
                       address + " with an MTU of " + std::to_string(path_mtu) +
                       ": a node must be written in one packet; raise the MTU, or create the "
                       "store with a smaller --node_bytes");
}

}  // namespace gossamer
