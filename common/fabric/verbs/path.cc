#include "common/fabric/verbs/path.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>

namespace gossamer::verbs {
namespace {

Error Invalid(std::string message) { return MakeError(Code::kInvalidArgument, std::move(message)); }

}  // namespace

Status CheckDeviceAndPort(const rdma_cm_id& id, const RdmaOptions& rdma,
                          const SocketAddress& address, bool is_own) {
  const std::string_view device = ibv_get_device_name(id.verbs->device);
  const std::string_view is_on = is_own ? "is on" : "is reached by";
  if (!rdma.device.empty() && rdma.device != device) {
    return Invalid(
        fmt::format("{} {} device {}, not {}", ToString(address), is_on, device, rdma.device));
  }
  if (rdma.port != 0 && rdma.port != id.port_num) {
    return Invalid(fmt::format("{} {} port {} of {}, not port {}", ToString(address), is_on,
                               id.port_num, device, rdma.port));
  }
  return Ok();
}

Status CheckGid(const rdma_cm_id& id, const RdmaOptions& rdma) {
  if (rdma.gid_index < 0) return Ok();
  ibv_gid gid{};
  const bool is_there = ibv_query_gid(id.verbs, id.port_num, rdma.gid_index, &gid) == 0;
  if (is_there && std::ranges::equal(gid.raw, id.route.addr.addr.ibaddr.sgid.raw)) return Ok();
  return Invalid(fmt::format(
      "the GID with index {} of {}, port {}, is not that of the address; show_gids lists them",
      rdma.gid_index, ibv_get_device_name(id.verbs->device), id.port_num));
}

Result<SocketAddress> AddressOfGid(const Device& device, const RdmaOptions& rdma, bool is_v6) {
  namespace ip = boost::asio::ip;
  assert(rdma.gid_index >= 0);
  const auto port = rdma.port != 0 ? static_cast<uint8_t>(rdma.port) : device.active_port();
  ibv_gid gid{};
  if (ibv_query_gid(device.verbs(), port, rdma.gid_index, &gid) != 0) {
    return Invalid(
        fmt::format("{}, port {}, has no GID with index {}", device.name(), port, rdma.gid_index));
  }
  ip::address_v6::bytes_type bytes;
  std::ranges::copy(gid.raw, bytes.begin());
  if (is_v6) return SocketAddress(ip::address_v6(bytes), 0);
  ip::address_v4::bytes_type last;
  std::copy(bytes.end() - last.size(), bytes.end(), last.begin());
  return SocketAddress(ip::address_v4(last), 0);
}

Status CheckWantedMtu(const RdmaOptions& rdma, uint32_t bytes, std::string_view whose) {
  if (rdma.path_mtu == 0 || rdma.path_mtu == bytes) return Ok();
  return Invalid(
      fmt::format("{} has a path MTU of {} bytes, not {}: set the MTU of the network "
                  "interface (an Ethernet MTU of 1500 gives 1024, 4200 gives 4096)",
                  whose, bytes, rdma.path_mtu));
}

Status SetTrafficClass(rdma_cm_id& id, const RdmaOptions& rdma) {
  if (rdma.traffic_class < 0) return Ok();
  auto type_of_service = static_cast<uint8_t>(rdma.traffic_class);
  if (rdma_set_option(&id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &type_of_service,
                      sizeof type_of_service) != 0) {
    return ErrnoError(Code::kUnsupported, "setting the traffic class of a connection");
  }
  return Ok();
}

}  // namespace gossamer::verbs
