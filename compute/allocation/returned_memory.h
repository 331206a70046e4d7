// How memory goes back to its memory server.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/fabric/scheduler.h"
#include "common/task.h"
#include "proto/control.h"
#include "proto/lock_word.h"

namespace gossamer {

struct ReturnedMemory {
  // Under which the ranges became free.
  Lease lease;
  std::vector<control::Range> ranges;
};

// Memory of a server that goes back to it. Thread-safety: none.
struct Returns {
  // Takes all of it, to be sent under the lease. PutBack must follow. nullopt: there is none, or no
  // lease.
  std::optional<ReturnedMemory> Take(const std::optional<Lease>& lease) {
    if (!lease || ranges.empty()) return std::nullopt;
    is_overdue = false;
    ++under_way;
    return ReturnedMemory{*lease, std::exchange(ranges, {})};
  }
  // `rest` of what was taken was not sent.
  void PutBack(const std::vector<control::Range>& rest) {
    --under_way;
    ranges.insert(ranges.end(), rest.begin(), rest.end());
    is_overdue = is_overdue || !rest.empty();
  }

  std::vector<control::Range> ranges;
  bool is_overdue = false;  // some of it was put back
  int under_way = 0;        // calls that have taken some
};

// Whether these are enough for a request that gives them back.
inline bool FillsARequest(const std::vector<control::Range>& ranges) {
  return ranges.size() >= control::ReleaseRequest::kMaxRanges;
}

// What became of memory that was to go back.
struct ReturnOutcome {
  // Some was refused, or its request got no answer: it is left to a sweeper.
  bool is_left = false;
  // The queue pair that carried a request without an answer, unless it was replaced since: the
  // server may still handle the request until that queue pair is destroyed (rule U1), also if it
  // works. 0: none.
  uint64_t carrier = 0;
};

// Sends the ranges, and takes them out of `returns`. Those stay there that were certainly not sent,
// for want of a queue pair. Nothing is sent behind a request without an answer. No request is
// repeated: PROTOCOL.md, "Value blocks".
// Cost: 1 RT for each few ranges.
Task<ReturnOutcome> ReturnMemory(Scheduler& scheduler, ServerId server, ReturnedMemory& returns);
// The same where the queue pair may have been lost long ago. A silent server is not tried again.
Task<ReturnOutcome> ReconnectAndReturn(Scheduler& scheduler, ServerId server,
                                       ReturnedMemory& returns);

}  // namespace gossamer
