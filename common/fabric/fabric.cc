#include "common/fabric/fabric.h"

#include <fmt/core.h>

#include <bit>
#include <string>

namespace gossamer {
namespace {

constexpr uint32_t kMaxTimeoutMs = 3'600'000;  // far from the largest int

Error Wrong(std::string_view flag, int64_t value, std::string_view remedy) {
  return MakeError(Code::kInvalidArgument, fmt::format("--{}={}: {}", flag, value, remedy));
}

}  // namespace

Result<FabricKind> ParseFabricKind(std::string_view name) {
  if (name == "shm") return FabricKind::kShm;
  if (name == "verbs") return FabricKind::kVerbs;
  return MakeError(Code::kInvalidArgument,
                   "fabric '" + std::string(name) + "': give --fabric=shm or --fabric=verbs");
}

std::string_view FabricKindName(FabricKind kind) {
  switch (kind) {
    case FabricKind::kShm: return "shm";
    case FabricKind::kVerbs: return "verbs";
    case FabricKind::kSim: return "sim";
  }
  return "invalid";
}

Status CheckRdmaOptions(FabricKind kind, const RdmaOptions& rdma) {
  if (kind == FabricKind::kShm) {
    constexpr std::string_view kNoDevice =
        "only --fabric=verbs has a device; leave it out, or give --fabric=verbs";
    if (!rdma.device.empty()) {
      return MakeError(Code::kInvalidArgument,
                       fmt::format("--device={}: {}", rdma.device, kNoDevice));
    }
    if (rdma.port != 0) return Wrong("ib_port", rdma.port, kNoDevice);
    if (rdma.gid_index != -1) return Wrong("gid_index", rdma.gid_index, kNoDevice);
    if (rdma.path_mtu != 0) return Wrong("path_mtu", rdma.path_mtu, kNoDevice);
    if (rdma.traffic_class != -1) return Wrong("traffic_class", rdma.traffic_class, kNoDevice);
  }
  if (rdma.port > UINT8_MAX) return Wrong("ib_port", rdma.port, "ports have the numbers 1 to 255");
  if (rdma.gid_index < -1 || rdma.gid_index > UINT8_MAX) {
    return Wrong("gid_index", rdma.gid_index, "give 0 to 255, or -1 for the one of the address");
  }
  const bool is_mtu =
      std::has_single_bit(rdma.path_mtu) && rdma.path_mtu >= 256 && rdma.path_mtu <= 4096;
  if (rdma.path_mtu != 0 && !is_mtu) {
    return Wrong("path_mtu", rdma.path_mtu, "give 256, 512, 1024, 2048 or 4096, or 0 for any");
  }
  if (rdma.traffic_class < -1 || rdma.traffic_class > UINT8_MAX) {
    return Wrong("traffic_class", rdma.traffic_class,
                 "give 0 to 255 (DSCP << 2 | ECN), or -1 for the default");
  }
  return Ok();
}

Status CheckConnectionTimeout(uint32_t timeout_ms) {
  if (timeout_ms != 0 && timeout_ms <= kMaxTimeoutMs) return Ok();
  return Wrong("connection_timeout_ms", timeout_ms, fmt::format("give 1 to {}", kMaxTimeoutMs));
}

}  // namespace gossamer
