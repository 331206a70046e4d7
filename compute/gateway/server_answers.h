// What a gateway says of itself to Redis clients and exporters: INFO and COMMAND.
//
// Thread-safety: all calls from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compute/gateway/gateway_options.h"
#include "compute/gateway/reply_writer.h"
#include "compute/metrics/worker_metrics.h"

namespace gossamer::gateway {

// The sections of INFO that `arguments` name, all but commandstats if they name none, in Redis's form and with its names. What the
// workers have counted is at most WorkerMetrics::kPublishInterval old.
std::string InfoText(const std::vector<std::string_view>& arguments, const GatewayOptions& options,
                     uint64_t clients, std::chrono::seconds uptime, const WorkerMetrics& metrics);
// COMMAND [COUNT | LIST | DOCS | INFO name...]
void AnswerCommand(const std::vector<std::string_view>& arguments, ReplyWriter& reply);

}  // namespace gossamer::gateway
