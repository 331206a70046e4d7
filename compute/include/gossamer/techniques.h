// What makes writes fast, each technique to be switched off by itself.
#pragma once

#include <cstdint>

namespace gossamer {

// With all of them off, and the lock tables in DRAM, what is left is the naive design: spin on a lock word, read the
// leaf, write the leaf, unlock (design section 6; Sherman, SIGMOD'22, calls it FG+). Compute servers with different
// techniques may share a store.
struct Techniques {
  bool combine_commands = true;    // verbs that need not wait for each other go out together
  bool hierarchical_locks = true;  // local queues, handover, combined writes, pauses between tries
  bool two_level_versions = true;  // groups are read and written, not whole leaves
  // With hierarchical locks: a lock stays in this compute server for so many more turns at most, then others may have it.
  uint32_t max_handovers = 4;
};

}  // namespace gossamer
