// CONFIG GET and CONFIG SET.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "compute/gateway/commands/gateway_options.h"
#include "compute/gateway/commands/slow_log.h"
#include "compute/gateway/protocol/reply_writer.h"

namespace gossamer::gateway {

// Answers CONFIG GET pattern [pattern ...] and CONFIG SET name value [name value ...]. Flags have
// set all but the limits of the slow log, which can be changed; of this gateway, until it ends.
// `port`: of its first address.
void AnswerConfig(const std::vector<std::string_view>& arguments, const GatewayOptions& options,
                  uint16_t port, SlowLog& slow_log, ReplyWriter& reply);

}  // namespace gossamer::gateway
