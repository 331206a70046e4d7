// The region header, at offset 0 of every memory server's region, and the superblock.
//
// The memory server writes the header once, before clients can connect; each client checks it. The
// superblock (server 0 only) has a page line of its own, because only atomics change its root word.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "proto/crc32c.h"
#include "proto/leaf_geometry.h"
#include "proto/remote_ptr.h"
#include "proto/store_parameters.h"

namespace gossamer {

inline constexpr uint64_t kRegionMagic = 0x52454d4153534f47;  // "GOSSAMER"
inline constexpr uint32_t kFormatVersion = 6;
// Files of memory from this version on are gone on with, as ones of the present version.
inline constexpr uint32_t kFirstFormatVersion = 5;

struct RegionHeader {
  uint64_t magic;
  uint32_t format_version;
  uint32_t checksum;  // CRC32C of the header with this field 0
  uint64_t store_id;
  uint64_t incarnation;  // of this memory server: new at each start
  uint64_t region_bytes;
  uint64_t lock_table_bytes;  // a power of two, 8 B..32 GiB
  uint64_t chunk_bytes;
  StoreParameters parameters;
  uint16_t server_id;
  uint16_t reserved[3];
};
static_assert(sizeof(RegionHeader) == 72 && std::is_trivially_copyable_v<RegionHeader>);
static_assert(offsetof(RegionHeader, checksum) == 12 && offsetof(RegionHeader, parameters) == 56 &&
              offsetof(RegionHeader, server_id) == 64);

inline uint32_t HeaderChecksum(RegionHeader header) {
  header.checksum = 0;
  return Crc32c(0, std::as_bytes(std::span(&header, 1)));
}

// Offset of the 8-byte root word in server 0's region.
inline constexpr uint64_t kRootWordOffset = 2048;
// A memory server tests its device here before clients find it (kLitmusBytes of
// common/fabric/litmus.h). Nothing else is stored or read here.
inline constexpr uint64_t kLitmusOffset = 3072;
// Server 0 keeps the first root leaf here, one node in its own page. Other servers do not use the
// page.
inline constexpr uint64_t kFirstLeafOffset = 4096;
// Extents are handed out from here on.
inline constexpr uint64_t kHeapOffset = 8192;
static_assert(kFirstLeafOffset + kMaxNodeBytes <= kHeapOffset);

// ---- Reading the header

// Whether all offsets that a client computes from the sizes in `header` lie in the region.
constexpr bool IsUsable(const RegionHeader& header) {
  return IsStorable(header.parameters) && header.region_bytes >= kHeapOffset &&
         header.region_bytes <= kMaxOffset + 1 && header.lock_table_bytes >= sizeof(uint64_t) &&
         header.lock_table_bytes <= uint64_t{1} << 35 &&
         (header.lock_table_bytes & (header.lock_table_bytes - 1)) == 0 &&
         header.chunk_bytes >= header.parameters.node_bytes;
}

// Parses the header from the first bytes of a region and ignores those behind it. Returns nullopt
// when they are none that this build can use, and sets `problem` to the reason, to follow the name
// of the memory server. Checks magic word and format version first, because all formats have them
// at the same offsets: this gives the clearest answer. `first_version`: the oldest one that the
// caller takes.
inline std::optional<RegionHeader> ParseRegionHeader(std::span<const std::byte> bytes,
                                                     std::string& problem,
                                                     uint32_t first_version = kFormatVersion) {
  RegionHeader header{};
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kRegionMagic) {
    problem = "not a Gossamer region";
  } else if (header.format_version < first_version || header.format_version > kFormatVersion) {
    problem = fmt::format("region of format version {}; this build speaks version {}",
                          header.format_version, kFormatVersion);
  } else if (header.checksum != HeaderChecksum(header)) {
    problem = "region header does not match its checksum";
  } else if (!IsUsable(header)) {
    problem = fmt::format(
        "region header with sizes that this build cannot use: node_bytes {}, max_key_bytes {}, "
        "inline_value_bytes {}, region_bytes {}, lock_table_bytes {}, chunk_bytes {}",
        header.parameters.node_bytes, header.parameters.max_key_bytes,
        header.parameters.inline_value_bytes, header.region_bytes, header.lock_table_bytes,
        header.chunk_bytes);
  } else {
    return header;
  }
  return std::nullopt;
}

}  // namespace gossamer
