#include "common/program/fabric_flags.h"

#include <fmt/core.h>
#include <gflags/gflags.h>

#include <array>

#include "common/fabric/fabric.h"

DEFINE_string(fabric, "shm", "shm: memory servers and clients on one machine; verbs: RDMA");
DEFINE_string(device, "", "verbs: RDMA device, such as mlx5_0 (default: the one of the address)");
DEFINE_uint32(ib_port, 0, "verbs: port of the device, from 1 (default: the one of the address)");
DEFINE_int32(
    gid_index, -1,
    "verbs: entry of the port's GID table to connect by, as show_gids lists them (default: "
    "the connection manager's choice)");
DEFINE_uint32(path_mtu, 0,
              "verbs: path MTU in bytes that connections must have, 256 to 4096 (default: any)");
DEFINE_int32(traffic_class, -1,
             "verbs: traffic class of packets, DSCP << 2 | ECN, 0 to 255 (default: the connection "
             "manager's)");
DEFINE_uint32(connection_timeout_ms, 2000,
              "how long the other end may be silent before it counts as lost");

namespace gossamer {

Result<FabricFlags> ReadFabricFlags() {
  BOOST_OUTCOME_TRY(kind, ParseFabricKind(FLAGS_fabric));
  FabricFlags flags{.fabric = FLAGS_fabric,
                    .rdma = {.device = FLAGS_device,
                             .port = FLAGS_ib_port,
                             .gid_index = FLAGS_gid_index,
                             .path_mtu = FLAGS_path_mtu,
                             .traffic_class = FLAGS_traffic_class},
                    .connection_timeout_ms = FLAGS_connection_timeout_ms};
  BOOST_OUTCOME_TRYV(CheckRdmaOptions(kind, flags.rdma));
  BOOST_OUTCOME_TRYV(CheckConnectionTimeout(flags.connection_timeout_ms));
  return flags;
}

std::span<const std::string_view> FabricFlagNames() {
  static constexpr std::array<std::string_view, 7> kNames = {"fabric",
                                                             "device",
                                                             "ib_port",
                                                             "gid_index",
                                                             "path_mtu",
                                                             "traffic_class",
                                                             "connection_timeout_ms"};
  return kNames;
}

std::vector<std::string> FlagsFor(const RdmaOptions& rdma) {
  const RdmaOptions none;
  std::vector<std::string> flags;
  if (rdma.device != none.device) flags.push_back("--device=" + rdma.device);
  if (rdma.port != none.port) flags.push_back(fmt::format("--ib_port={}", rdma.port));
  if (rdma.gid_index != none.gid_index) {
    flags.push_back(fmt::format("--gid_index={}", rdma.gid_index));
  }
  if (rdma.path_mtu != none.path_mtu) flags.push_back(fmt::format("--path_mtu={}", rdma.path_mtu));
  if (rdma.traffic_class != none.traffic_class) {
    flags.push_back(fmt::format("--traffic_class={}", rdma.traffic_class));
  }
  return flags;
}

}  // namespace gossamer
