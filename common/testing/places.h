// The places of a run, one after the other, at which a test breaks something.
#pragma once

#include <cstdint>

#include "common/testing/seed.h"
#include "proto/testing/rounds.h"

namespace gossamer {

// The distance between the places, and the first one: every place. With a sanitizer it is every
// third one, and the seed draws the first.
inline constexpr uint64_t kPlaceStep = kIsSanitized ? 3 : 1;
inline uint64_t FirstPlace() { return 1 + TestSeed() % kPlaceStep; }

}  // namespace gossamer
