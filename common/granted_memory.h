// What a memory server has handed out, and the leases in force: the input of a sweeper (rule U4).
#pragma once

#include <cstdint>
#include <vector>

#include "proto/lock_word.h"

namespace gossamer {

struct GrantedExtent {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t client_uuid = 0;  // of the compute server that it was granted to
  Lease lease;               // that it was granted under
  bool is_waiting = false;   // given back by another, it waits for that compute server
};

struct LeaseInForce {
  uint64_t client_uuid = 0;
  Lease lease;
};

struct GrantedMemory {
  std::vector<GrantedExtent> extents;  // by offset
  std::vector<LeaseInForce> in_force;
};

}  // namespace gossamer
