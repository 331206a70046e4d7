// The seed of a random test: printed, and taken from GOSSAMER_TEST_SEED to repeat a run.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

namespace gossamer {

inline uint64_t TestSeed() {
  static const uint64_t seed_of_run = [] {
    const char* given = std::getenv("GOSSAMER_TEST_SEED");
    const uint64_t seed =
        given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::cout << "GOSSAMER_TEST_SEED=" << seed << std::endl;
    return seed;
  }();
  return seed_of_run;
}

}  // namespace gossamer
