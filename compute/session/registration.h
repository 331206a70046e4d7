// Registering with a memory server: how this compute server gets its lease.
//
// A queue pair belongs to the lease that a registration over it returned. The memory server
// destroys the queue pair before the lease ends, and grants the next lease only afterwards. That
// lease is the epoch of rule L4: verbs for locks taken under a lease are posted on queue pairs of
// that lease, or fail with Fenced. So each session registers over its own queue pair, when it
// attaches and after each reconnect. All sessions of a compute server get the same lease while it
// is in force.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/fabric/endpoint.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/session/store_clock.h"
#include "proto/control.h"
#include "proto/lock_word.h"

namespace gossamer {

// A server counts as unreachable after this many registrations in a row without an answer, each for
// this long: it accepts connections but does not serve. One silence is not enough, because this
// process may have been stopped meanwhile. (A lost queue pair is noticed sooner.)
inline constexpr std::chrono::milliseconds kSilentRegistration{100};
inline constexpr uint32_t kMostSilences = 2;

// How long to pause after a failed try to reach a server: four times as long as the try took, so
// that tries, which block others, are rare. But at least `least`; and at most kLongestRest, because
// operations wait for the server no longer than `reconnect_ms`, and it may be back the next moment.
inline constexpr std::chrono::milliseconds kLongestRest{2000};
template <typename Duration>
constexpr Duration RestAfterTry(Duration took, Duration least = Duration{0}) {
  return std::clamp<Duration>(4 * took, least, kLongestRest);
}

struct Registration {
  Lease lease;
  uint32_t lease_ms = 0;  // the lease ends if not renewed within this time; 0: never
  control::Usage usage;   // of the memory server
  StoreClock::Sample clock = {};
};

// Registers over the endpoint's queue pair to `server`.
// Errors: NodeUnreachable if the server does not answer or the queue pair is broken. Fenced while
// the previous lease is being ended, and the queue pair with it: reconnect.
// Cost: 1 RT, 1 SEND.
Task<Result<Registration>> RegisterOver(Endpoint& endpoint, ServerId server);

// Replaces the endpoint's queue pair to `server` and registers over the new one.
// Errors: those of connecting and of RegisterOver.
// Cost: 2 RT, at most the connection timeout plus that of a control message.
Task<Result<Registration>> ReplaceAndRegister(Endpoint& endpoint, ServerId server);

}  // namespace gossamer
