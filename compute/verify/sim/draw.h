// How plans draw their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "common/random.h"

namespace gossamer::simulator {

// One of `values`, each equally likely.
template <typename T>
T OneOf(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.Below(values.size())];
}

// From `least` to `most`, both included.
inline uint32_t Between(Random& random, uint32_t least, uint32_t most) {
  return least + static_cast<uint32_t>(random.Below(uint64_t{most} - least + 1));
}

inline bool Chance(Random& random, uint32_t percent) { return random.Below(100) < percent; }

}  // namespace gossamer::simulator
