#include "common/fabric/verbs/device_facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <optional>

namespace gossamer::verbs {
namespace {

// In Gb/s: what a lane carries. 0: unknown.
double LaneSpeed(uint8_t active_speed) {
  switch (active_speed) {
    case 1: return 2.5;    // SDR
    case 2: return 5;      // DDR
    case 4:                // QDR
    case 8: return 10;     // FDR10
    case 16: return 14;    // FDR
    case 32: return 25;    // EDR
    case 64: return 50;    // HDR
    case 128: return 100;  // NDR
    default: return 0;
  }
}

uint32_t Lanes(uint8_t active_width) {
  switch (active_width) {
    case 1: return 1;
    case 2: return 4;
    case 4: return 8;
    case 8: return 12;
    case 16: return 2;
    default: return 0;
  }
}

std::string AtomicsName(ibv_atomic_cap capability) {
  switch (capability) {
    case IBV_ATOMIC_NONE: return "none";
    case IBV_ATOMIC_HCA: return "of this device";
    case IBV_ATOMIC_GLOB: return "global";
  }
  return "unknown";
}

std::string GidTypeName(uint32_t type) {
  switch (type) {
    case IBV_GID_TYPE_IB: return "InfiniBand";
    case IBV_GID_TYPE_ROCE_V1: return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2: return "RoCE v2";
    default: return "unknown";
  }
}

std::optional<ibv_gid_entry> FindGid(const rdma_cm_id& bound, int table_length) {
  const ibv_gid& wanted = bound.route.addr.addr.ibaddr.sgid;
  std::optional<ibv_gid_entry> found;
  for (int index = 0; index < table_length; ++index) {
    ibv_gid_entry entry{};
    const bool is_read =
        ibv_query_gid_ex(bound.verbs, bound.port_num, static_cast<uint32_t>(index), &entry, 0) == 0;
    if (!is_read || !std::ranges::equal(entry.gid.raw, wanted.raw)) continue;
    const bool is_better = entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
                           (!found || found->gid_type != IBV_GID_TYPE_ROCE_V2);
    if (!found || is_better) found = entry;
  }
  return found;
}

}  // namespace

int NumaNodeOf(const Device& device) {
  int node = kUnknownNode;
  std::ifstream("/sys/class/infiniband/" + device.name() + "/device/numa_node") >> node;
  return std::max(node, kUnknownNode);
}

std::string LinkSpeed(uint8_t active_speed, uint8_t active_width) {
  const double speed = LaneSpeed(active_speed) * Lanes(active_width);
  return speed == 0 ? "unknown" : fmt::format("{:g} Gb/s", speed);
}

std::vector<std::pair<std::string, std::string>> FactsOf(const Device& device,
                                                         const rdma_cm_id& bound) {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"device", device.name()},
      {"firmware", device.attributes().fw_ver},
      {"port", std::to_string(bound.port_num)}};
  ibv_port_attr attributes{};
  if (ibv_query_port(bound.verbs, bound.port_num, &attributes) == 0) {
    const std::optional<ibv_gid_entry> gid = FindGid(bound, attributes.gid_tbl_len);
    facts.emplace_back("gid_index", gid ? std::to_string(gid->gid_index) : "none");
    facts.emplace_back("gid_type", gid ? GidTypeName(gid->gid_type) : "none");
    facts.emplace_back("path_mtu", std::to_string(MtuBytes(attributes.active_mtu)));
    facts.emplace_back("link", LinkSpeed(attributes.active_speed, attributes.active_width));
  }
  const int node = NumaNodeOf(device);
  facts.emplace_back("numa_node", node == kUnknownNode ? "none" : std::to_string(node));
  facts.emplace_back("atomics", AtomicsName(device.attributes().atomic_cap));
  facts.emplace_back("device_memory", std::to_string(device.device_memory_bytes()));
  facts.emplace_back("queue_depth", std::to_string(device.queue_pair_size().verbs));
  facts.emplace_back("inline_bytes", std::to_string(device.queue_pair_size().inline_bytes));
  return facts;
}

}  // namespace gossamer::verbs
