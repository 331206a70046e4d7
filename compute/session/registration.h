// Registering with a memory server: how this compute server gets its lease there.
//
// A queue pair belongs to the lease that a registration over that same queue pair returned: the memory server
// destroys it before the lease ends, and gives out the next lease only afterwards. That lease is the epoch of rule
// L4: what is locked under one lease is posted on queue pairs of that lease, or fails with Fenced. So each session
// registers over its own queue pair, when it attaches and after each reconnect; while the lease is in force, all of
// a compute server's sessions are answered with the same.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/fabric/fabric.h"
#include "common/status.h"
#include "common/task.h"
#include "proto/control.h"
#include "proto/lock_word.h"

namespace gossamer {

// A server that so often in a row does not answer a registration for so long is out of reach: it accepts connections,
// but does not serve. (That a queue pair is lost is known sooner. But this process may have been stopped meanwhile.)
inline constexpr std::chrono::milliseconds kSilentRegistration{100};
inline constexpr uint32_t kMostSilences = 2;

struct Registration {
  Lease lease;
  uint32_t lease_ms = 0;  // it ends unless it is renewed within this; 0: it does not
  control::Usage usage;   // of the memory server
};

// Registers over the endpoint's queue pair to `server`. 1 RT, 1 SEND. NodeUnreachable when the server does not answer
// or the queue pair is broken; Fenced while the lease before is being ended, and the queue pair with it: reconnect.
Task<Result<Registration>> RegisterOver(Endpoint& endpoint, ServerId server);

// A new queue pair to `server` in the place of the endpoint's, and a registration over it. 2 RT; ends within the
// connection time-out and that of a control message. Errors: as of either.
Task<Result<Registration>> ReplaceAndRegister(Endpoint& endpoint, ServerId server);

}  // namespace gossamer
