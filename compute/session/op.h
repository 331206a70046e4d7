// Op: the account of one operation of a session, from its start to its end.
//
// Its verbs are added to the session's counters when it ends. What it lost is here, too: each layer notes what failed,
// and RecoverFrom (links.h) decides once, at the top, whether the operation starts again.
//
// Thread-safety: none; it belongs to the operation's coroutines.
#pragma once

#include <cstdint>
#include <optional>

#include "gossamer/counters.h"
#include "proto/remote_ptr.h"

namespace gossamer {

struct Op {
  WireCounts wire;
  OperationClass kind = OperationClass::kRead;
  // A repair, which only makes others faster: it gives up at a lock that is taken.
  bool is_repair = false;

  // How many queue pairs the session had replaced when the operation last posted. A queue pair that was replaced since
  // is not the one that it posted on.
  uint64_t posted_at = 0;
  uint32_t losses = 0;
  uint32_t retries = 0;

  // The server that the last error is about, and posted_at when it was lost.
  std::optional<ServerId> lost;
  uint64_t lost_at = 0;
  // The error concerns only memory that was allocated: the operation may start again with memory of any server.
  bool needs_other_memory = false;
  // No server gave memory, and one of them was lost.
  bool lacks_memory = false;

  // A server that gave no memory and was passed over, and posted_at then.
  std::optional<ServerId> passed_over;
  uint64_t passed_over_at = 0;

  void NoteLoss(ServerId server) {
    lost = server;
    lost_at = posted_at;
  }
};

}  // namespace gossamer
