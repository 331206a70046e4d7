// The region header, at offset 0 of every memory server's region, and the superblock.
//
// The header is written once, before clients can connect, and checked by each of them. The superblock
// (server 0 only) has a page line of its own, as its root word is changed by atomics and by nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "proto/crc32c.h"
#include "proto/remote_ptr.h"

namespace gossamer {

inline constexpr uint64_t kRegionMagic = 0x52454d4153534f47;  // "GOSSAMER"
inline constexpr uint32_t kFormatVersion = 1;

// Fixed when a store is created; every client and every later memory server must agree.
struct StoreParameters {
  uint32_t node_bytes = 1024;        // a power of two, 256..4096, at most the path MTU
  uint16_t max_key_bytes = 32;       // 1..32
  uint16_t inline_value_bytes = 16;  // 0..64: longer values go to value blocks

  friend bool operator==(const StoreParameters&, const StoreParameters&) = default;
};
static_assert(sizeof(StoreParameters) == 8);

inline constexpr uint32_t kMinNodeBytes = 256;
inline constexpr uint32_t kMaxNodeBytes = 4096;
inline constexpr uint32_t kMaxKeyBytes = 32;
inline constexpr uint32_t kMaxInlineValueBytes = 64;
inline constexpr uint32_t kMaxValueBytes = 1 << 20;

struct RegionHeader {
  uint64_t magic;
  uint32_t format_version;
  uint32_t checksum;  // CRC32C of the header with this field 0
  uint64_t store_id;
  uint64_t incarnation;  // of this memory server: new at each start
  uint64_t region_bytes;
  uint64_t lock_table_bytes;
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
// Server 0 keeps the first root leaf here, one node in a page of its own; elsewhere the page is unused.
inline constexpr uint64_t kFirstLeafOffset = 4096;
// Extents are handed out from here on.
inline constexpr uint64_t kHeapOffset = 8192;
static_assert(kFirstLeafOffset + kMaxNodeBytes <= kHeapOffset);

}  // namespace gossamer
