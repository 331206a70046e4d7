// Typed calls to a memory server's control service.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/fabric/endpoint.h"
#include "common/status.h"
#include "common/task.h"
#include "proto/control.h"

namespace gossamer {

// Sends `request` to `server` and waits for its reply.
// Errors: NodeUnreachable if the server does not answer; otherwise the error in its reply.
// Cost: 1 RT, 1 SEND.
template <typename Reply, typename Request>
Task<Result<Reply>> CallControl(Endpoint& endpoint, ServerId server, Request request) {
  ControlCall call;
  call.server = server;
  call.request_bytes = sizeof request;
  std::memcpy(call.request.data(), &request, sizeof request);
  co_await endpoint.Execute(call);
  if (call.status != VerbStatus::kSuccess) {
    co_return MakeError(Code::kNodeUnreachable,
                        fmt::format("memory server {} does not answer ({})", ToInteger(server),
                                    VerbStatusName(call.status)));
  }
  control::Header header;
  if (call.reply_bytes >= sizeof header) {
    std::memcpy(&header, call.reply.data(), sizeof header);
    if (header.type == control::Type::kError && call.reply_bytes == sizeof(control::ErrorReply)) {
      control::ErrorReply error;
      std::memcpy(&error, call.reply.data(), sizeof error);
      const size_t length = std::min<size_t>(error.message_bytes, sizeof error.message);
      co_return MakeError(static_cast<Code>(error.code), std::string(error.message, length));
    }
    if (header.type == request.header.type && call.reply_bytes == sizeof(Reply)) {
      Reply reply;
      std::memcpy(&reply, call.reply.data(), sizeof reply);
      co_return reply;
    }
  }
  co_return MakeError(
      Code::kCorruption,
      fmt::format("memory server {} answered a control message with {} unknown bytes",
                  ToInteger(server), call.reply_bytes));
}

// The extents that a memory server has handed out, in order of their offsets. `ask(request)` sends
// one request: a Task<Result<control::ListExtentsReply>>.
// Errors: those of `ask`.
// Cost: 1 RT, 1 SEND for each kMaxExtents of them.
template <typename Ask>
Task<Result<std::vector<control::Extent>>> ListExtents(Ask ask) {
  std::vector<control::Extent> extents;
  control::ListExtentsRequest request;
  for (;;) {
    BOOST_OUTCOME_CO_TRY(reply, co_await ask(request));
    const uint32_t count = std::min(reply.count, control::ListExtentsReply::kMaxExtents);
    extents.insert(extents.end(), reply.extents, reply.extents + count);
    if (reply.more == 0 || count == 0) co_return extents;
    request.from_offset = extents.back().offset + extents.back().bytes;
  }
}

// Those of `server`, asked over the endpoint.
inline Task<Result<std::vector<control::Extent>>> ListExtents(Endpoint& endpoint, ServerId server) {
  return ListExtents([&endpoint, server](const control::ListExtentsRequest& request) {
    return CallControl<control::ListExtentsReply>(endpoint, server, request);
  });
}

}  // namespace gossamer
