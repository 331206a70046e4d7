#include "compute/metrics/store_state.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "common/text/escape.h"

namespace gossamer {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

nlohmann::ordered_json HotLeavesState(const Store& store) {
  constexpr size_t kMost = 10;
  auto leaves = nlohmann::ordered_json::array();
  for (const HotLeaf& leaf : store.HotLeaves(kMost)) {
    leaves.push_back({{"leaf", fmt::format("{}:{:#x}", leaf.server_id, leaf.offset)},
                      {"first_key", Quoted(leaf.key)},
                      {"operations", leaf.operations}});
  }
  return leaves;
}

nlohmann::ordered_json StatState(const StoreStat& stat) {
  Json servers = Json::array();
  for (const ServerStat& server : stat.servers) {
    Json entry = {{"id", server.server_id}, {"address", server.address}};
    if (server.unreachable.empty()) {
      entry.update({{"heap_bytes", server.heap_bytes},
                    {"free_bytes", server.free_bytes},
                    {"node_bytes", server.node_extent_bytes},
                    {"block_bytes", server.block_extent_bytes},
                    {"waiting_bytes", server.waiting_bytes},
                    {"orphaned_bytes", server.orphaned_bytes},
                    {"compute_servers", server.compute_servers},
                    {"lock_table", server.locks_on_chip ? "device" : "dram"}});
    } else {
      entry["unreachable"] = server.unreachable;
    }
    servers.push_back(std::move(entry));
  }
  return {{"store", stat.store}, {"fabric", stat.fabric}, {"servers", std::move(servers)}};
}

}  // namespace gossamer
