// Connections to a memory server that are no queue pairs yet, in the order in which they came. They
// may be so for a bounded time, and so many at a time: a peer that connects and says nothing holds
// two file descriptors of the server's.
//
// Thread-safety: none; of the control thread. Cost: O(log n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "common/fabric/fabric.h"

namespace gossamer::shm {

class Newcomers {
 public:
  using Clock = Endpoint::Clock;

  // Ids grow.
  void Add(uint64_t id, Clock::time_point now) { came_.emplace_hint(came_.end(), id, now); }
  void Remove(uint64_t id) { came_.erase(id); }
  bool contains(uint64_t id) const { return came_.contains(id); }
  size_t size() const { return came_.size(); }
  // Who came first, if that was at or before `time`.
  std::optional<uint64_t> FirstUpTo(Clock::time_point time) const {
    if (came_.empty() || came_.begin()->second > time) return std::nullopt;
    return came_.begin()->first;
  }

 private:
  std::map<uint64_t, Clock::time_point> came_;
};

}  // namespace gossamer::shm
