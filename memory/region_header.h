// What a memory server writes into its region before clients can connect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/bootstrap/membership.h"
#include "proto/region.h"

namespace gossamer {

struct RegionLayout {
  uint64_t lock_table_bytes = 0;
  uint64_t chunk_bytes = 0;
  StoreParameters parameters;
};

// Writes the header, and on server 0 the first root.
// Requires: `region` is zero and at least kHeapOffset long.
void InitialiseRegion(std::span<std::byte> region, const RegionLayout& layout,
                      const MemberIdentity& identity);

}  // namespace gossamer
