// Connections to a memory server that are no queue pairs yet, in order of arrival. Their time and
// number are bounded: a peer that connects and says nothing holds two of the server's file
// descriptors.
//
// Thread-safety: none; for the control thread. Cost: O(log n).
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "common/fabric/endpoint.h"

namespace gossamer::shm {

class Newcomers {
 public:
  using Clock = Endpoint::Clock;

  // Requires: ids grow.
  void Add(uint64_t id, Clock::time_point now) {
    assert(came_.empty() || came_.rbegin()->first < id);
    came_.emplace_hint(came_.end(), id, now);
  }
  void Remove(uint64_t id) { came_.erase(id); }
  bool contains(uint64_t id) const { return came_.contains(id); }
  size_t size() const { return came_.size(); }
  // The first arrival, if it came at or before `time`.
  std::optional<uint64_t> FirstUpTo(Clock::time_point time) const {
    if (came_.empty() || came_.begin()->second > time) return std::nullopt;
    return came_.begin()->first;
  }

 private:
  std::map<uint64_t, Clock::time_point> came_;
};

}  // namespace gossamer::shm
