// The log of the faults that kept a client of a simulated network from a memory server: tests
// explain an error by a fault that its operation met.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "common/fabric/endpoint.h"

namespace gossamer {

// A queue pair or its link, lost for a time.
struct SimFault {
  enum class Kind : uint8_t {
    kBreak,  // the queue pair broke, and its client could replace it; or it worked and was replaced
    kCall,   // a control call was lost; the queue pair stayed usable
    kLinkDown,  // the link was down
    kFenced,    // the memory server destroyed the queue pair: the lease had ended
    kServer,    // the memory server ended
    kStopped,   // a control call waited for the stopped memory server
  };
  using Clock = Endpoint::Clock;

  Kind kind = Kind::kBreak;
  uint64_t client_uuid = 0;
  uint64_t endpoint_id = 0;
  uint64_t server_number = 0;
  bool has_owner = false;  // the endpoint has a driver's pointer (SimNetwork::SetOwner)
  Clock::time_point from{};
  // When the queue pair was replaced, or its endpoint was gone.
  Clock::time_point until = Clock::time_point::max();

  bool Overlaps(Clock::time_point begin, Clock::time_point end) const {
    return from <= end && begin <= until;
  }
};

namespace sim {

class FaultLog {
 public:
  using Clock = SimFault::Clock;

  void Add(const SimFault& fault) {
    if (fault.until == Clock::time_point::max()) open_.push_back(faults_.size());
    faults_.push_back(fault);
  }
  // The endpoint has a queue pair to that server again, or is gone.
  void End(uint64_t endpoint_id, uint64_t server_number, Clock::time_point now) {
    std::erase_if(open_, [&](size_t index) {
      SimFault& fault = faults_[index];
      const bool ends = fault.endpoint_id == endpoint_id && fault.server_number == server_number;
      if (ends) fault.until = now;
      return ends;
    });
  }
  const std::vector<SimFault>& faults() const { return faults_; }

 private:
  std::vector<SimFault> faults_;  // in order of `from`
  std::vector<size_t> open_;      // indices of faults that have not ended
};

}  // namespace sim
}  // namespace gossamer
