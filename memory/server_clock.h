// ServerClock: a memory server's time. That of server 0 is the store's: keys expire by it.
//
// It begins with this machine's clock and then goes on without it, at the rate of CLOCK_BOOTTIME:
// it does not jump where the machine's clock is set. A server that comes back on the same boot goes
// on with it. After another boot it begins anew, but never before what was noted.
//
// Thread-safety: NowUs from any thread.
#pragma once

#include <cstdint>

#include "memory/kept_region.h"

namespace gossamer {

class ServerClock {
 public:
  // `region`: what an earlier server may have noted; or null. It outlives the clock.
  explicit ServerClock(KeptRegion* region);

  // Microseconds since 1970.
  uint64_t NowUs() const;
  // Notes the time, for a server that comes back after another boot.
  void Note() const;

 private:
  KeptRegion* const region_;
  int64_t offset_us_ = 0;  // to the time since the machine was started
};

}  // namespace gossamer
