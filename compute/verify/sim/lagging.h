// Sessions that go on some time after the others of their client: threads of a process that was
// stopped do not go on together.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "common/random.h"
#include "compute/verify/sim/client.h"

namespace gossamer::simulator {

class LaggingSessions {
 public:
  using Time = Endpoint::Clock::time_point;

  // About half of the client's sessions: they lag behind the others, which go on at `others`.
  void Draw(const SimulatedClient& client, Time others, uint32_t longest_us, Random& random) {
    for (const auto& session : client.sessions()) {
      if (session == nullptr || random.Below(2) != 0) continue;
      until_[session.get()] = others + std::chrono::microseconds(1 + random.Below(longest_us));
    }
  }

  // Whether the session is not polled yet. Its endpoint wakes it then.
  bool Has(OpenSession* session, Endpoint& endpoint, Time now) {
    const auto found = until_.find(session);
    if (found == until_.end()) return false;
    if (now < found->second) {
      endpoint.WakeAt(found->second);
      return true;
    }
    until_.erase(found);
    return false;
  }

 private:
  std::unordered_map<OpenSession*, Time> until_;
};

}  // namespace gossamer::simulator
