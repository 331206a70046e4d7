// LeaseStatus: which leases that lock words name are known to have ended.
//
// Who finds a lock taken for long asks the memory server whether the holder's lease is in force. Once it is not, its
// holder is fenced, and every lock word with that lease may be taken from it (rule L6): its owner no longer unlocks,
// nor writes. An ended lease never comes back, as no incarnation is given out twice (rule L2), so that the answer
// holds for good; that a lease is in force holds for the moment only, and is not remembered.
//
// One for a compute server. Cost: `HasEnded` is a few loads, without verbs or locks; asking is one control message,
// rarely. Ended leases are kept in a table of fixed size: one that others pushed out is asked about anew.
// Thread-safety: thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "common/fabric/scheduler.h"
#include "common/status.h"
#include "common/task.h"
#include "proto/lock_word.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class LeaseStatus {
 public:
  // Whether `lease`, of a lock word of `server`, is known to have ended.
  bool HasEnded(ServerId server, Lease lease) const;
  // Likewise, and asks the server when it is not known; true is remembered. All threads together ask about one lease
  // no more than once at a time and about once in kAskInterval: false may also mean that somebody else has just
  // asked, and is to be asked again later. 0 or 1 RT, and as many SENDs. NodeUnreachable when the server does not
  // answer.
  Task<Result<bool>> AskWhetherEnded(Scheduler& scheduler, ServerId server, Lease lease);

  static constexpr std::chrono::milliseconds kAskInterval{2};

 private:
  using Clock = Scheduler::Clock;

  // A lease in one word: a 1, server 16, compute server 16, incarnation 24; 0 is none, even for bytes that are no lease.
  enum class Name : uint64_t {};
  static Name NameOf(ServerId server, Lease lease);
  // Whether it is this caller's turn to ask.
  bool StartAsking(Name name, Clock::time_point now);
  void EndAsking(Name name, bool has_ended, Clock::time_point now);
  void Remember(Name name);

  // Sets of kWays names each; a set that is full forgets one.
  static constexpr size_t kSets = 256;
  static constexpr size_t kWays = 4;
  using Set = std::array<std::atomic<Name>, kWays>;
  static size_t SetOf(Name name);

  std::array<Set, kSets> ended_{};
  std::mutex mutex_;
  std::unordered_map<Name, Clock::time_point> ask_again_at_;  // guarded by mutex_
};

// For people: "compute server 3 (incarnation 1), process 4711 on host ant", of a lease with `server`. The process is
// left out where the server does not answer, and where the lease has ended. 1 RT, 1 SEND.
Task<std::string> DescribeHolder(Scheduler& scheduler, ServerId server, Lease lease);

}  // namespace gossamer
