#include "compute/gateway/connection/client_memory.h"

namespace gossamer::gateway {

void ClientMemory::AddTo(Families& families) const {
  families
      .Gauge("gossamer_client_memory_bytes",
             "What is held for clients: requests, and answers with what is read for them.")
      .Add({{"use", "requests"}}, held(Use::kRequests))
      .Add({{"use", "answers"}}, held(Use::kAnswers));
  families.Gauge("gossamer_client_memory_limit_bytes", "The bound of both together.")
      .Add({}, most());
}

}  // namespace gossamer::gateway
