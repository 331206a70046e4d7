#include "compute/verify/sim/worn_memory.h"

#include <memory>
#include <utility>

#include "common/fabric/open/open_port.h"
#include "common/fabric/scheduler.h"
#include "compute/session/control_client.h"

namespace gossamer::simulator {
namespace {

// No client has it: they count up from 1.
constexpr uint64_t kUuid = ~uint64_t{1};

Task<Status> WearServer(Scheduler& scheduler, ServerId server, uint64_t chunk_bytes,
                        uint8_t generation) {
  Endpoint& endpoint = scheduler.endpoint();
  const Result<control::RegisterReply> lease =
      co_await CallControl<control::RegisterReply>(endpoint, server, control::RegisterRequest{});
  if (!lease) co_return lease.error();
  std::vector<control::Range> ranges;
  for (;;) {
    control::AllocateRequest request;
    request.bytes = chunk_bytes;
    const Result<control::AllocateReply> granted =
        co_await CallControl<control::AllocateReply>(endpoint, server, request);
    if (!granted) break;  // all is granted
    const control::AllocateReply& extent = granted.value();
    ranges.push_back({extent.offset, extent.bytes, generation, control::Past::kUsed});
  }
  for (const control::Range& range : ranges) {
    control::ReleaseRequest request;
    request.compute_id = lease.value().compute_id;
    request.incarnation = lease.value().incarnation;
    request.count = 1;
    request.ranges[0] = range;
    const Result<control::ReleaseReply> reply =
        co_await CallControl<control::ReleaseReply>(endpoint, server, request);
    if (!reply) co_return reply.error();
  }
  co_return Ok();
}

}  // namespace

Status WearMemory(SimNetwork& network, const StoreRecord& record, uint64_t chunk_bytes,
                  uint8_t generation) {
  ComputePortOptions options;
  options.client_uuid = kUuid;
  options.network = &network;
  BOOST_OUTCOME_TRY(port, OpenComputePort(FabricKind::kSim, options));
  for (const MemberRecord& server : record.servers) {
    BOOST_OUTCOME_TRYV(port->Connect(server.server, server.address, server.incarnation));
  }
  BOOST_OUTCOME_TRY(endpoint, port->NewEndpoint());
  Scheduler scheduler(*endpoint);
  for (const MemberRecord& server : record.servers) {
    BOOST_OUTCOME_TRYV(endpoint->Attach(server.server));
    BOOST_OUTCOME_TRYV(
        scheduler.Run(WearServer(scheduler, server.server, chunk_bytes, generation)));
  }
  return Ok();
}

}  // namespace gossamer::simulator
