// LeaseStatus: which leases in lock words are known to have ended.
//
// A coroutine that finds a lock taken for long asks the memory server whether the holder's lease is
// in force. If not, the holder is fenced: it neither unlocks nor writes any more, and every lock
// word with that lease may be taken (rule L6). An ended lease never comes back, because no
// incarnation is granted twice (rule L2), so this answer is remembered. That a lease is in force is
// true only for the moment, and not remembered.
//
// One for each compute server. What it remembers is bounded: a lease that it has forgotten is asked
// about again.
//
// Thread-safety: thread-safe. Cost: a mutex; asking is one control message, rarely.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "common/fabric/scheduler.h"
#include "common/status.h"
#include "common/task.h"
#include "proto/lock_word.h"
#include "proto/remote_ptr.h"

namespace gossamer {

enum class LeaseState : uint8_t { kInForce, kEnded };

// Asks `server` about a lease that it granted.
// Errors: NodeUnreachable.
// Cost: 1 RT, 1 SEND.
Task<Result<LeaseState>> AskAboutLease(Scheduler& scheduler, ServerId server, Lease lease);

class LeaseStatus {
 public:
  // Whether `lease`, from a lock word of `server`, has ended. Asks the server if that is not known.
  // All threads together ask about one lease once at a time, about every kAskInterval. kInForce may
  // also mean that another thread has just asked: ask again later.
  // Errors: NodeUnreachable if the server does not answer.
  // Cost: 0 or 1 RT, and as many SENDs.
  Task<Result<LeaseState>> Ask(Scheduler& scheduler, ServerId server, Lease lease);

  static constexpr std::chrono::milliseconds kAskInterval{2};

 private:
  using Clock = Scheduler::Clock;
  using Name = std::tuple<ServerId, ComputeId, uint32_t>;

  std::mutex mutex_;
  // Guarded by mutex_. When to ask about a lease again; kNever: it has ended.
  static constexpr Clock::time_point kNever = Clock::time_point::max();
  std::map<Name, Clock::time_point> ask_again_at_;
};

// For people: "compute server 3 (incarnation 1), process 4711 on host ant", of a lease with
// `server`. Without the process if the server does not answer or the lease has ended.
// Cost: 1 RT, 1 SEND.
Task<std::string> DescribeHolder(Scheduler& scheduler, ServerId server, Lease lease);

}  // namespace gossamer
