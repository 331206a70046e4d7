// Layout of a saved file: what a memory server held when it was saved, packed.
//
//   SavedFileHeader
//   SavedBlock and its bytes, for each block that is not all zeros: those of the state and the map
//   of the heap first, then those of the region, each by rising place
//   SavedBlock with the place kSavedEnd, and 8 bytes: the number of blocks before it
//
// A block is kSavedBlockBytes of a region file (region_file.h), compressed: one frame of zstd
// (RFC 8878). Memory that was free reads as zeros. The pages of queue pairs are left out, and the
// checksums of value blocks that entries of leaves repeat: they are zero.
//
// All numbers are little-endian. The files that were saved together, one of each server of a store,
// are a *set*: they have the same `set`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "proto/crc32c.h"
#include "proto/region.h"
#include "proto/region_file.h"
#include "proto/store_record.h"

namespace gossamer {

inline constexpr uint64_t kSavedFileMagic = 0x4d454d4445564153;  // "SAVEDMEM"
inline constexpr uint32_t kSavedFileVersion = 2;
inline constexpr uint32_t kFirstSavedFileVersion = 1;  // no checksum is left out
inline constexpr uint64_t kSavedBlockBytes = uint64_t{1} << 20;
static_assert(kRegionFileUnit % kSavedBlockBytes == 0, "a block lies in one part of the file");

struct SavedFileHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t checksum;  // CRC32C of the header with this field 0
  uint64_t set;
  uint64_t sequence;     // of two files of a server in one directory, the later has more
  uint64_t saved_at_ms;  // since 1970, by the clock of the machine, which may be set back
  uint16_t servers;      // of the store, at that time
  std::array<uint16_t, 3> reserved;
  RegionHeader region;                         // of the life that was saved
  RegionFileHeader file;                       // where the parts are
  std::array<char, kMaxStoreNameBytes> store;  // its name; ends with zeros
};
static_assert(sizeof(SavedFileHeader) == 224 && std::is_trivially_copyable_v<SavedFileHeader>);

struct SavedBlock {
  uint64_t at;            // in the region file, a multiple of kSavedBlockBytes
  uint32_t stored_bytes;  // that follow
  uint32_t checksum;      // CRC32C of the fields before it, then of the bytes that follow
};
static_assert(sizeof(SavedBlock) == 16 && std::is_trivially_copyable_v<SavedBlock>);
inline constexpr uint64_t kSavedEnd = UINT64_MAX;

// A frame of zstd is at most this much longer than what it holds.
inline constexpr uint64_t kMaxStoredBytes = kSavedBlockBytes + (kSavedBlockBytes >> 8) + 64;

inline uint32_t HeaderChecksum(SavedFileHeader header) {
  header.checksum = 0;
  return Crc32c(0, std::as_bytes(std::span(&header, 1)));
}
inline uint32_t ChecksumOf(const SavedBlock& block, std::span<const std::byte> stored) {
  const uint32_t head =
      Crc32c(0, std::as_bytes(std::span(&block, 1)).first(offsetof(SavedBlock, checksum)));
  return Crc32c(head, stored);
}

}  // namespace gossamer
