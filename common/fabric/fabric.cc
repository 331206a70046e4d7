#include "common/fabric/fabric.h"

#include <cstring>
#include <thread>

#include "common/fabric/poll.h"

namespace gossamer {
Result<FabricKind> ParseFabricKind(std::string_view name) {
  if (name == "shm") return FabricKind::kShm;
  if (name == "verbs") return FabricKind::kVerbs;
  return MakeError(Code::kInvalidArgument,
                   "fabric '" + std::string(name) + "': give --fabric=shm or --fabric=verbs");
}

std::string_view FabricKindName(FabricKind kind) {
  switch (kind) {
    case FabricKind::kShm: return "shm";
    case FabricKind::kVerbs: return "verbs";
    case FabricKind::kSim: return "sim";
  }
  return "invalid";
}

std::string_view VerbStatusName(VerbStatus status) {
  switch (status) {
    case VerbStatus::kPending: return "pending";
    case VerbStatus::kSuccess: return "success";
    case VerbStatus::kRemoteAccess: return "remote access error";
    case VerbStatus::kFlushed: return "flushed";
    case VerbStatus::kUnknown: return "peer lost";
  }
  return "invalid";
}

Verb Verb::Read(uint64_t offset, uint32_t length, LocalAddress into, Space space) {
  Verb verb;
  verb.space = space;
  verb.length = length;
  verb.remote_offset = offset;
  verb.local = into;
  return verb;
}

Verb Verb::Write(uint64_t offset, uint32_t length, LocalAddress from, Space space) {
  Verb verb = Read(offset, length, from, space);
  verb.opcode = Opcode::kWrite;
  return verb;
}

Verb Verb::CompareSwap(Space space, uint64_t offset, uint64_t compare, uint64_t swap,
                       LocalAddress old_value) {
  Verb verb = Read(offset, 8, old_value, space);
  verb.opcode = Opcode::kCompareSwap;
  verb.compare = compare;
  verb.swap_or_add = swap;
  return verb;
}

Verb Verb::FetchAdd(Space space, uint64_t offset, uint64_t addend, LocalAddress old_value) {
  Verb verb = Read(offset, 8, old_value, space);
  verb.opcode = Opcode::kFetchAdd;
  verb.swap_or_add = addend;
  return verb;
}

uint64_t Verb::old_value() const {
  uint64_t value;
  std::memcpy(&value, local.data, sizeof value);
  return value;
}

VerbStatus Batch::status() const {
  for (const Verb& verb : verbs()) {
    if (verb.status != VerbStatus::kSuccess) return verb.status;
  }
  return VerbStatus::kSuccess;
}

Status CheckPathMtu(const ComputePortOptions& options, uint32_t path_mtu,
                    const std::string& address) {
  if (path_mtu >= options.least_path_mtu) return Ok();
  return MakeError(Code::kUnsupported,
                   "nodes of " + std::to_string(options.least_path_mtu) + " bytes, and a path to " +
                       address + " with an MTU of " + std::to_string(path_mtu) +
                       ": a node must be written in one packet; raise the MTU, or create the "
                       "store with a smaller --node_bytes");
}

void Endpoint::Yield() { std::this_thread::yield(); }

void PollUntilComplete(Endpoint& endpoint, const Completion& completion) {
  while (completion.remaining != 0) {
    if (endpoint.Poll() == 0) endpoint.Yield();
  }
}

Status Endpoint::Reconnect(ServerId server) {
  QueuePairRequest request;
  request.server = server;
  Completion completion{1, std::noop_coroutine()};
  request.completion = &completion;
  Post(request);
  PollUntilComplete(*this, completion);
  return request.status;
}

void Endpoint::AttachAll(std::span<const ServerId> servers) {
  std::vector<QueuePairRequest> requests(servers.size());
  Completion completion{static_cast<uint32_t>(servers.size()), std::noop_coroutine()};
  for (size_t i = 0; i < servers.size(); ++i) {
    requests[i].server = servers[i];
    requests[i].completion = &completion;
    Post(requests[i]);
  }
  PollUntilComplete(*this, completion);
}

Status Endpoint::Attach(ServerId server) {
  return IsAttached(server) ? Status(Ok()) : Reconnect(server);
}

}  // namespace gossamer
