#include "memory/region_header.h"

#include <cassert>
#include <cstring>

#include "proto/leaf.h"

namespace gossamer {

void InitialiseRegion(std::span<std::byte> region, const RegionLayout& layout,
                      const MemberIdentity& identity) {
  assert(region.size() >= kHeapOffset);
  RegionHeader header{};
  header.magic = kRegionMagic;
  header.format_version = kFormatVersion;
  header.store_id = identity.store_id;
  header.incarnation = identity.incarnation;
  header.region_bytes = region.size();
  header.lock_table_bytes = layout.lock_table_bytes;
  header.chunk_bytes = layout.chunk_bytes;
  header.parameters = layout.parameters;
  header.server_id = ToInteger(identity.server);
  header.checksum = HeaderChecksum(header);
  std::memcpy(region.data(), &header, sizeof header);
  if (identity.server == ServerId{0}) WriteFirstRoot(region, layout.parameters);
}

}  // namespace gossamer
