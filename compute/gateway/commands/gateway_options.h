// What a gateway is told.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compute/gateway/commands/slow_log.h"
#include "compute/gateway/connection/tls.h"
#include "compute/gateway/connection/users.h"
#include "compute/gateway/eviction/eviction_figures.h"

namespace gossamer::gateway {

struct GatewayOptions {
  std::vector<std::string> listen;      // "ADDRESS:PORT" or "unix:PATH"
  std::optional<uint32_t> socket_mode;  // of the sockets at paths; none: as the umask has it
  std::vector<std::string> listen_tls;  // "ADDRESS:PORT", over TLS
  std::shared_ptr<TlsServer> tls;       // not null, if `listen_tls` has an address
  Users users;                          // none: clients need no password
  uint32_t threads = 1;
  bool pin = false;  // each thread to a processor of its own
  uint32_t max_clients = 10'000;
  SlowLog::Limits slow_log;
  uint64_t max_query_bytes = uint64_t{64}
                             << 20;  // of requests that have not been answered, of one client
  // What the process may hold for its clients: see ClientMemory.
  uint64_t client_memory_bytes = uint64_t{512} << 20;
  // While that is short, a client that holds some of it, and neither sends nor takes anything for
  // so long, is disconnected.
  std::chrono::milliseconds patience{10'000};
  // Of the store that is served; null: no keys are evicted.
  std::shared_ptr<EvictionFigures> eviction;
};

// In Redis's words.
inline std::string_view MaxMemoryPolicyOf(const GatewayOptions& options) {
  return RedisNameOf(options.eviction == nullptr ? EvictionPolicy::kNone
                                                 : options.eviction->options.policy);
}

}  // namespace gossamer::gateway
