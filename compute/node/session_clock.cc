#include "compute/node/session_clock.h"

#include "compute/rules/rules.h"

namespace gossamer {

bool SessionClock::IsBefore(uint64_t expires_at) const {
  return !HasExpired(expires_at, LatestMs()) || rules::IgnoresExpiry();
}

}  // namespace gossamer
