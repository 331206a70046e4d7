// What a gateway answers without the store: INFO, COMMAND, CONFIG and CLIENT.
//
// Thread-safety: all calls from any thread, but those with the client's from its worker's.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compute/gateway/commands/gateway_options.h"
#include "compute/gateway/commands/slow_log.h"
#include "compute/gateway/connection/client.h"
#include "compute/gateway/connection/client_list.h"
#include "compute/gateway/connection/users.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "compute/metrics/worker_metrics.h"

namespace gossamer::gateway {

// What tells a gateway from others, and from its earlier lives.
struct GatewayIdentity {
  std::string run_id = RandomRunId();
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  uint16_t port = 0;  // of the first address; 0: there are paths only
  // What other compute servers show to this one (GOSSAMER.PEER LOGIN).
  std::string peer_token = RandomRunId();

  // 40 hexadecimal digits, as in Redis.
  static std::string RandomRunId();
};

struct GatewayFigures {
  uint64_t clients;
  int64_t keys;           // as the last DBSIZE found it; negative: not known
  uint64_t client_bytes;  // held for clients
  uint64_t expired_keys;  // deleted by this compute server
  // With subscribers.
  uint64_t channels;
  uint64_t patterns;
  uint64_t shard_channels;
};

// The sections of INFO that `arguments` name, all but commandstats if they name none, in Redis's
// form and with its names. What the workers have counted is at most WorkerMetrics::kPublishInterval
// old.
std::string InfoText(const std::vector<std::string_view>& arguments, const GatewayOptions& options,
                     const GatewayIdentity& identity, const GatewayFigures& figures,
                     const WorkerMetrics& metrics);
// COMMAND [COUNT | LIST | DOCS [name...] | INFO name...]
void AnswerCommand(const std::vector<std::string_view>& arguments, ReplyWriter& reply);
// CONFIG GET pattern [pattern ...] and CONFIG SET name value [name value ...]. Flags have set all
// but the limits of the slow log, which can be changed; of this gateway, until it ends. `port`: of
// its first address.
void AnswerConfig(const std::vector<std::string_view>& arguments, const GatewayOptions& options,
                  uint16_t port, SlowLog& slow_log, ReplyWriter& reply);
// CLIENT. Appends the answer to `client`'s output. CLIENT KILL may end this client, too: then it is
// closing.
void AnswerClient(Client& client, const std::vector<std::string_view>& arguments, ClientList& list,
                  const Users& users, ClientList::Clock::time_point now);

}  // namespace gossamer::gateway
