// Techniques that make writes fast. Each can be switched off separately.
#pragma once

#include <cstdint>

namespace gossamer {

// With all of them off, and lock tables in DRAM, the naive design is left: spin on a lock word,
// read the leaf, write the leaf, unlock (Sherman, SIGMOD'22, calls it FG+). Compute servers with
// different techniques may share a store.
struct Techniques {
  bool combine_commands = true;    // post verbs together that need not wait for each other
  bool hierarchical_locks = true;  // local queues, handover, combined writes, backoff
  bool two_level_versions = true;  // read and write groups, not whole leaves
  // With hierarchical locks: most times in a row that a lock is handed over within this compute
  // server.
  uint32_t max_handovers = 4;
};

}  // namespace gossamer
