// What a gateway says of itself to Redis clients and exporters: INFO and COMMAND.
//
// Thread-safety: all calls from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compute/gateway/commands/gateway_options.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "compute/metrics/worker_metrics.h"

namespace gossamer::gateway {

// What tells a gateway from others, and from its earlier lives.
struct GatewayIdentity {
  std::string run_id = RandomRunId();
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  uint16_t port = 0;  // of the first address; 0: there are paths only

  // 40 hexadecimal digits, as in Redis.
  static std::string RandomRunId();
};

struct GatewayFigures {
  uint64_t clients;
  int64_t keys;           // as the last DBSIZE found it; negative: not known
  uint64_t client_bytes;  // held for clients
};

// The sections of INFO that `arguments` name, all but commandstats if they name none, in Redis's
// form and with its names. What the workers have counted is at most WorkerMetrics::kPublishInterval
// old.
std::string InfoText(const std::vector<std::string_view>& arguments, const GatewayOptions& options,
                     const GatewayIdentity& identity, const GatewayFigures& figures,
                     const WorkerMetrics& metrics);
// COMMAND [COUNT | LIST | DOCS [name...] | INFO name...]
void AnswerCommand(const std::vector<std::string_view>& arguments, ReplyWriter& reply);

}  // namespace gossamer::gateway
