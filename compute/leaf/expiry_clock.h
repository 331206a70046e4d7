// ExpiryClock: the store's time, as a leaf's editor needs it.
//
// Who holds a leaf's lock takes an entry for expired as soon as that is possible, and removes or
// overwrites it: then everybody finds it gone. So the editor needs no more than the latest time
// that it may be (PROTOCOL.md, rule X2).
#pragma once

#include <cstdint>

#include "proto/entry.h"

namespace gossamer {

class ExpiryClock {
 public:
  virtual ~ExpiryClock() = default;
  // Milliseconds since 1970: not before the store's time.
  virtual uint64_t LatestMs() const = 0;

  bool MayHaveExpired(const Entry& entry) const {
    return entry.has_time() && entry.HasExpiredAt(LatestMs());
  }
};

}  // namespace gossamer
