// Op: the account of one operation of a session, from its start to its end.
//
// Its verbs are added to the session's counters when it ends. It also records losses: each layer
// notes what failed, and RecoverFrom (links.h) decides once, at the top, whether the operation
// restarts.
//
// Thread-safety: none; it belongs to the operation's coroutines.
#pragma once

#include <cstdint>
#include <optional>

#include "gossamer/counters.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// A moment at which pointers were looked up, as this compute server counts time: Links::Now.
struct Moment {
  // How many leases the memory servers had given. Pointers of an earlier lease are not used (rule R9).
  uint64_t leases = 0;
  // How often the cache had been emptied. It takes nothing that was found by pointers of before.
  uint64_t flushes = 0;

  friend bool operator==(const Moment&, const Moment&) = default;
};

struct Op {
  WireCounts wire;
  OperationClass kind = OperationClass::kRead;
  // A repair that has changed nothing yet, and only makes other operations faster. It gives up at a
  // lock that is taken.
  bool is_repair = false;

  Moment began;  // when it looked up the first pointer that it uses
  // A batch was not posted, because the operation's pointers are of an earlier lease. It starts again.
  bool is_of_the_past = false;

  // The number of queue pairs that the session had replaced when the operation last posted. A queue
  // pair replaced later is not the one that it posted on.
  uint64_t posted_at = 0;
  uint32_t losses = 0;
  uint32_t retries = 0;

  // The server of the last error, and posted_at when it was lost.
  std::optional<ServerId> lost;
  uint64_t lost_at = 0;
  // The error concerns only allocated memory: the operation may restart with memory of any server.
  bool needs_other_memory = false;
  // No server gave memory, and one of them was lost.
  bool lacks_memory = false;

  // A server that gave no memory and was skipped, and posted_at at that time.
  std::optional<ServerId> passed_over;
  uint64_t passed_over_at = 0;

  void NoteLoss(ServerId server) {
    if (is_of_the_past) return;  // nothing was posted
    lost = server;
    lost_at = posted_at;
  }
};

}  // namespace gossamer
