// The distributions that the simulated network draws its faults from.
#pragma once

#include <bit>
#include <cstdint>

#include "common/fabric/sim/events.h"
#include "common/random.h"

namespace gossamer::sim {

// True in one of `count` cases; never for 0.
inline bool OneIn(Random& random, uint64_t count) { return count != 0 && random.Below(count) == 0; }

// Uniform up to and including `most`.
inline Nanoseconds UpTo(Random& random, Nanoseconds most) {
  return static_cast<Nanoseconds>(random.Below(static_cast<uint64_t>(most) + 1));
}

// From 1 us to about `most`, each doubling equally likely: mostly short, rarely long.
inline Nanoseconds LogUpTo(Random& random, Nanoseconds most) {
  constexpr Nanoseconds kLeast = 1'000;
  if (most <= kLeast) return most;
  const auto doublings =
      static_cast<uint64_t>(std::bit_width(static_cast<uint64_t>(most / kLeast)));
  const Nanoseconds scale = kLeast << random.Below(doublings);
  return scale + UpTo(random, scale) / 2;
}

// The delay of one verb behind another: mostly less than a round trip, sometimes several.
inline Nanoseconds Spread(Random& random) {
  switch (random.Below(8)) {
    case 0: return UpTo(random, 12'000);
    case 1:
    case 2:
    case 3: return UpTo(random, 2'500);
    default: return UpTo(random, 250);
  }
}

// The duration of a verb that could take effect at once: long enough to overlap others.
inline Nanoseconds Duration(Random& random) {
  switch (random.Below(4)) {
    case 0: return UpTo(random, 250);
    case 1: return UpTo(random, 12'000);
    default: return UpTo(random, 3'000);
  }
}

}  // namespace gossamer::sim
