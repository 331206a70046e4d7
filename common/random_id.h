// Globally unique ids of stores, memory servers and their clients.
#pragma once

#include <cstdint>
#include <random>

namespace gossamer {

// 64 random bits from the operating system, never 0. Cost: about 1 µs. Thread-safety: thread-safe.
inline uint64_t RandomId() {
  std::random_device random;
  uint64_t id = 0;
  while (id == 0) id = uint64_t{random()} << 32 | random();
  return id;
}

}  // namespace gossamer
