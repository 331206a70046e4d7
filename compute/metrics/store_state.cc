#include "compute/metrics/store_state.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace gossamer {

nlohmann::ordered_json StatState(const StoreStat& stat) {
  using Json = nlohmann::ordered_json;
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
