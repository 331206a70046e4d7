// Op: the account of one operation of a session, from its start to its end.
//
// Its verbs are added to the session's counters when it ends. It also records losses: each layer
// notes what failed, and RecoverFrom (links.h) decides once, at the top, whether the operation
// restarts.
//
// Thread-safety: none; it belongs to the operation's coroutines.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "gossamer/counters.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// A moment at which pointers were looked up, as this compute server counts time: Links::Now.
struct Moment {
  // How many leases the memory servers had given. Pointers of an earlier lease are not used (rule
  // R9).
  uint64_t leases = 0;
  // How often the cache had been emptied. It takes nothing that was found by pointers of before.
  uint64_t flushes = 0;

  friend bool operator==(const Moment&, const Moment&) = default;
};

// A queue pair that was lost. `posted_at` counts the session's queue pairs up to the post of the
// lost verbs; 0: nothing was posted.
struct Loss {
  ServerId server{0};
  uint64_t posted_at = 0;
};

struct Op {
  WireCounts wire;
  OperationClass kind = OperationClass::kRead;
  // A repair that has changed nothing yet, and only makes other operations faster. It gives up at a
  // lock that is taken.
  bool is_repair = false;

  Moment began;  // when it looked up the first pointer that it uses
  // A batch was not posted, because the operation's pointers are of an earlier lease, or of none.
  // It starts again.
  bool is_of_the_past = false;

  uint32_t losses = 0;
  uint32_t retries = 0;
  // When it first lost something: Links::IsLate.
  std::optional<std::chrono::steady_clock::time_point> lost_since;

  // Of the last error.
  std::optional<Loss> lost;
  // The error concerns only allocated memory: the operation may restart with memory of any server.
  bool needs_other_memory = false;
  // No server gave memory, and one of them was lost.
  bool lacks_memory = false;

  // Of a server that gave no memory and was skipped.
  std::optional<Loss> passed_over;

  void NoteLoss(const Loss& loss) {
    if (!is_of_the_past) lost = loss;  // else nothing was posted
  }
};

}  // namespace gossamer
