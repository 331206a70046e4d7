// How memory goes back to its memory server.
#pragma once

#include <cstdint>
#include <optional>
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

// Whether these are enough for a request that gives them back.
inline bool FillsARequest(const std::vector<control::Range>& ranges) {
  return ranges.size() >= control::ReleaseRequest::kMaxRanges;
}

// Best effort: what is refused, or of unknown outcome, is left to a sweeper. Returns, after an unknown outcome, the queue pair that
// carried the request: the server may still handle it until that is destroyed (rule U1).
// Cost: 1 RT for each few ranges.
Task<std::optional<uint64_t>> ReturnMemory(Scheduler& scheduler, ServerId server,
                                           ReturnedMemory returns);
// The same where the queue pair may have been lost long ago. A silent server is not tried again.
Task<void> ReconnectAndReturn(Scheduler& scheduler, ServerId server, ReturnedMemory returns);

}  // namespace gossamer
