#include "common/bootstrap/server_probe.h"

#include <fmt/core.h>

#include "common/fabric/open/open_port.h"
#include "common/random_id.h"

namespace gossamer {
namespace {

Result<RegionHeader> AskHeader(const StoreRecord& record, const MemberRecord& member,
                               const RdmaOptions& rdma, uint32_t timeout_ms) {
  BOOST_OUTCOME_TRY(kind, ParseFabricKind(record.fabric));
  ComputePortOptions options;
  options.rdma = rdma;
  options.connection_timeout_ms = timeout_ms;
  options.client_uuid = RandomId();
  BOOST_OUTCOME_TRY(port, OpenComputePort(kind, options));
  BOOST_OUTCOME_TRY(port->Connect(member.server, member.address));
  BOOST_OUTCOME_TRY(endpoint, port->NewEndpoint());
  // A new endpoint passes over servers that it cannot reach.
  BOOST_OUTCOME_TRYV(endpoint->Attach(member.server));
  return ReadRegionHeader(*endpoint, member.server);
}

}  // namespace

Result<RegionHeader> ReadRegionHeader(Endpoint& endpoint, ServerId server) {
  BOOST_OUTCOME_TRY(buffer, endpoint.buffers().Allocate(sizeof(RegionHeader)));
  InlineBatch<1> batch(server);
  batch.Add(Verb::Read(0, sizeof(RegionHeader), buffer.address()));
  Completion completion{1, std::noop_coroutine()};
  batch.completion = &completion;
  endpoint.Post(batch);
  PollUntilComplete(endpoint, completion);  // 1 RT
  if (batch.status() != VerbStatus::kSuccess) {
    return MakeError(Code::kNodeUnreachable,
                     fmt::format("server {} did not answer: {}", ToInteger(server),
                                 VerbStatusName(batch.status())));
  }
  std::string problem;
  const auto header = ParseRegionHeader({buffer.data(), sizeof(RegionHeader)}, problem);
  if (header) return *header;
  return MakeError(Code::kCorruption,
                   fmt::format("server {}, offset 0: {}", ToInteger(server), problem));
}

LivenessProbe FabricProbe(const RdmaOptions& rdma, uint32_t timeout_ms) {
  return [rdma, timeout_ms](const StoreRecord& record, const MemberRecord& member) -> Probed {
    const Result<RegionHeader> header = AskHeader(record, member, rdma, timeout_ms);
    if (!header) {
      const Liveness process = JudgeSilence(record, member);
      if (process == Liveness::kDead) return process;
      return {process, header.error()};
    }
    const bool same = header.value().store_id == record.store_id &&
                      header.value().incarnation == member.incarnation &&
                      header.value().server_id == ToInteger(member.server);
    if (same) return Liveness::kAlive;
    const Liveness process = JudgeSilence(record, member);
    return process == Liveness::kUnreachable ? process : Liveness::kDead;
  };
}

}  // namespace gossamer
