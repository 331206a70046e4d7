// SessionClock: the store's time on a session's thread.
//
// Thread-safety: none; one for each session. Cost: reads the machine's clock.
#pragma once

#include <cstdint>

#include "common/fabric/scheduler.h"
#include "compute/leaf/expiry_clock.h"
#include "compute/session/store_clock.h"

namespace gossamer {

class SessionClock final : public ExpiryClock {
 public:
  SessionClock(const StoreClock& store, const Scheduler& scheduler)
      : store_(store), scheduler_(scheduler) {}

  uint64_t LatestMs() const override { return Now().latest_ms(); }
  // Milliseconds since 1970: not behind the store's time.
  uint64_t EarliestMs() const { return Now().earliest_ms(); }
  // Whether a reader may take what has that of Entry::expires_at for alive. If not, it says
  // nothing: who holds the leaf's lock decides (rule X1).
  bool IsAlive(uint64_t expires_at) const {
    return (expires_at & kLatestExpiry) == 0 || IsBefore(expires_at);
  }

 private:
  bool IsBefore(uint64_t expires_at) const;
  StoreClock::Interval Now() const { return store_.Now(scheduler_.Now()); }

  const StoreClock& store_;
  const Scheduler& scheduler_;
};

}  // namespace gossamer
