#include "compute/session/registration.h"

#include "common/process.h"
#include "compute/session/control_client.h"

namespace gossamer {

Task<Result<Registration>> RegisterOver(Endpoint& endpoint, ServerId server) {
  control::RegisterRequest request;
  request.process = OwnProcessName();
  const StoreClock::Time asked = endpoint.Now();
  BOOST_OUTCOME_CO_TRY(reply,
                       co_await CallControl<control::RegisterReply>(endpoint, server, request));
  co_return Registration{{static_cast<ComputeId>(reply.compute_id), reply.incarnation},
                         reply.lease_ms,
                         reply.usage,
                         {reply.clock_us, asked, endpoint.Now()}};
}

Task<Result<Registration>> ReplaceAndRegister(Endpoint& endpoint, ServerId server) {
  QueuePairRequest request;
  request.server = server;
  co_await endpoint.Execute(request);
  if (!request.status) co_return request.status.error();
  Result<Registration> registered = co_await RegisterOver(endpoint, server);
  co_return registered;
}

}  // namespace gossamer
