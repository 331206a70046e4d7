// What is constant about a memory server while it serves, for reports.
//
// Thread-safety: plain data.
#pragma once

#include <cstdint>
#include <string>

namespace gossamer {

struct MemoryFacts {
  std::string store;
  uint16_t server = 0;
  std::string fabric;
  std::string address;
  uint64_t chunk_bytes = 0;
  uint64_t lock_table_bytes = 0;
  uint32_t lease_ms = 0;  // 0: leases do not expire
};

}  // namespace gossamer
