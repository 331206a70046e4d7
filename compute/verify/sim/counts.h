// Counts of one or many runs, for people, and for tests that enough happens.
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
  uint64_t undecided_keys = 0;  // keys whose history was too complex to decide
  uint64_t unknown = 0;         // writes whose outcome is unknown
  uint64_t modified = 0;        // keys whose value a modify replaced or removed
  uint64_t erased = 0;          // by DeleteRange
  uint64_t rests = 0;           // of cursors
  uint64_t refused = 0;         // operations that failed with an error that a fault explains
  uint64_t lives = 0;           // of clients; a replacement counts as another life
  uint64_t levels = 0;          // sum over the final trees of all runs
  uint64_t keys = 0;
  uint64_t leaves = 0;
  uint64_t missing_downlinks = 0;
  uint64_t locks_of_the_dead = 0;  // found by the final check: no client had needed them
  uint64_t dead_servers = 0;
  uint64_t joined_servers = 0;
  uint64_t returned_servers = 0;
  uint64_t replaced_nodes = 0;    // of dead servers, by repairs
  uint64_t swept_bytes = 0;       // unreachable, and no client may use them any more
  uint64_t given_back_bytes = 0;  // by sweeps of clients
  uint64_t virtual_ns = 0;
  Counters counters;  // of all clients
  SimCounters network;
};

void Add(RunCounts& sum, const RunCounts& more);

// Several lines: the operations in `seconds`, and how often each event happened.
std::string Summary(const RunCounts& counts, double seconds);

}  // namespace gossamer::simulator
