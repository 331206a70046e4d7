// What happened in a run, or in many: for people, and for tests that enough happens.
#pragma once

#include <cstdint>
#include <string>

#include "common/fabric/sim/sim.h"
#include "gossamer/counters.h"

namespace gossamer::simulator {

struct RunCounts {
  uint64_t runs = 0;
  uint64_t operations = 0;
  uint64_t steps = 0;  // times that a session ran its coroutines
  uint64_t history_events = 0;
  uint64_t undecided_keys = 0;  // whose history was too tangled to decide
  uint64_t unknown = 0;         // writes of which nobody knows whether they happened
  uint64_t refused = 0;         // operations that ended with an error which a fault explains
  uint64_t lives = 0;           // of clients: more than clients where some came again
  uint64_t levels = 0;          // of all trees together, at the end; likewise
  uint64_t keys = 0;
  uint64_t leaves = 0;
  uint64_t missing_downlinks = 0;
  uint64_t locks_of_the_dead = 0;  // that nobody had wanted
  uint64_t dead_servers = 0;
  uint64_t joined_servers = 0;
  uint64_t swept_bytes = 0;  // that nobody had used and nobody may use any more
  uint64_t virtual_ns = 0;
  Counters counters;  // of all clients
  SimCounters network;
};

void Add(RunCounts& sum, const RunCounts& more);

// Some lines: what was done in so many seconds, and how often what happened.
std::string Summary(const RunCounts& counts, double seconds);

}  // namespace gossamer::simulator
