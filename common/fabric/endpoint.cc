#include "common/fabric/endpoint.h"

#include <thread>
#include <vector>

namespace gossamer {

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
