// Links of a simulated network that are down for a while.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

#include "common/fabric/sim/events.h"

namespace gossamer::sim {

// Between a client, or one endpoint of it, and one memory server or all.
struct Outage {
  static constexpr uint64_t kAll = ~uint64_t{0};

  uint64_t client_uuid = 0;
  uint64_t endpoint_id = kAll;
  uint64_t server_number = kAll;
  Nanoseconds until = 0;

  bool Concerns(uint64_t client, uint64_t endpoint) const {
    return client_uuid == client && (endpoint_id == kAll || endpoint_id == endpoint);
  }
  bool IsTo(uint64_t server) const { return server_number == kAll || server_number == server; }
};

// For diagnostics, without the client.
inline std::string ToString(const Outage& outage, Nanoseconds now) {
  return fmt::format("{}cannot reach {} for {} us",
                     outage.endpoint_id == Outage::kAll
                         ? std::string()
                         : fmt::format("by its endpoint {} ", outage.endpoint_id),
                     outage.server_number == Outage::kAll
                         ? "any memory server"
                         : fmt::format("memory server sim:{}", outage.server_number),
                     (outage.until - now) / 1000);
}

}  // namespace gossamer::sim
