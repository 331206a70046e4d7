// Where a test breaks something that breaks it at each place of a run in turn.
#pragma once

#include <cstdint>

#include "common/testing/seed.h"
#include "proto/testing/rounds.h"

namespace gossamer {

// The distance between the places, and the first one. With a sanitizer it is every third place, from one on that the seed draws.
inline constexpr uint64_t kPlaceStep = kIsSanitized ? 3 : 1;
inline uint64_t FirstPlace() { return 1 + TestSeed() % kPlaceStep; }

}  // namespace gossamer
