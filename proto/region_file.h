// Layout of a region file: the memory of a memory server that outlives its process.
//
//   0             the region (region.h), with the file's header at kRegionFileHeaderAt
//   StateAt()     the state: a page, and two records of the store behind it
//   MapAt()       the map of the heap (memory/heap_map.h)
//   PagesAt()     shm: the pages of queue pairs
//   FileBytes()
//
// Each part begins at a multiple of 2 MiB, and a file has holes where nothing was written. A
// process may be killed between any two stores. So the state has two *lives* and two *records*, of
// which the valid one with the higher sequence counts: a writer overwrites the other one, its
// checksum last.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "proto/crc32c.h"
#include "proto/region.h"
#include "proto/store_record.h"

namespace gossamer {

inline constexpr uint64_t kRegionFileMagic = 0x4c49464e4f494752;  // "RGIONFIL"
inline constexpr uint32_t kRegionFileVersion = 1;
inline constexpr uint64_t kRegionFileUnit = uint64_t{2} << 20;

// In the region's page of its own header.
inline constexpr uint64_t kRegionFileHeaderAt = 1024;

// Written once, when the file is created.
struct RegionFileHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t checksum;  // CRC32C of the header with this field 0
  uint64_t region_bytes;
  uint64_t map_bytes;
  uint64_t pages_bytes;
};
static_assert(kRegionFileHeaderAt >= sizeof(RegionHeader) &&
              kRegionFileHeaderAt + sizeof(RegionFileHeader) <= kRootWordOffset);
static_assert(sizeof(RegionFileHeader) == 40 && std::is_trivially_copyable_v<RegionFileHeader>);

// One life of a memory server on the region: from its start to its end.
struct RegionLife {
  static constexpr size_t kMaxProcessBytes = 128;
  static constexpr size_t kEarlier = 16;

  uint64_t sequence;  // 1, 2, …
  // Incarnations of the lives before, the last one first; 0: none. The store's record may name one
  // of them: a life may end before it is recorded, and a lost record may come back as it was.
  std::array<uint64_t, kEarlier> earlier;
  // The region's header in this life. The header in the region may be torn: it is written after.
  RegionHeader header;
  std::array<char, kMaxProcessBytes> process;  // common/process.h; ends with zeros
  uint32_t was_closed;  // 1: all that was written is in the file, also after a loss of power
  uint32_t checksum;    // CRC32C of what is before it
};
static_assert(sizeof(RegionLife) == 344 && std::is_trivially_copyable_v<RegionLife>);

// A server's clock (memory/server_clock.h). Zeros: never noted.
struct ClockNote {
  int64_t offset_us = 0;  // its time less the time since the machine was started
  uint64_t last_us = 0;   // its time when it was noted last
};
static_assert(sizeof(ClockNote) == 16 && std::is_trivially_copyable_v<ClockNote>);

// The store's record (store_record.h), as it was last seen. Its text is behind it.
struct RegionRecord {
  uint64_t sequence;
  uint32_t text_bytes;
  uint32_t checksum;  // CRC32C of the first 12 bytes, then of the text
};
static_assert(sizeof(RegionRecord) == 16 && std::is_trivially_copyable_v<RegionRecord>);

// Offsets in the state.
inline constexpr uint64_t kGivenIncarnationAt = 512;  // 4 bytes: the highest of all leases
inline constexpr uint64_t kGivenEpochAt = 516;        // 4 bytes: the last one that was begun
inline constexpr uint64_t kTestedDeviceAt = 520;      // 8 bytes: a digest of what was tested, or 0
inline constexpr uint64_t kClockAt = 528;             // ClockNote
inline constexpr std::array<uint64_t, 2> kLivesAt = {1024, 2048};
inline constexpr std::array<uint64_t, 2> kRecordsAt = {4096, 4096 + (uint64_t{1} << 20)};
inline constexpr uint64_t kStateBytes = 4096 + (uint64_t{2} << 20);
static_assert(sizeof(RegionRecord) + kMaxStoreRecordBytes <= kRecordsAt[1] - kRecordsAt[0]);

constexpr uint64_t RoundUpToFileUnit(uint64_t bytes) {
  return (bytes + kRegionFileUnit - 1) / kRegionFileUnit * kRegionFileUnit;
}
constexpr uint64_t StateAt(const RegionFileHeader& header) {
  return RoundUpToFileUnit(header.region_bytes);
}
constexpr uint64_t MapAt(const RegionFileHeader& header) {
  return StateAt(header) + RoundUpToFileUnit(kStateBytes);
}
constexpr uint64_t PagesAt(const RegionFileHeader& header) {
  return MapAt(header) + RoundUpToFileUnit(header.map_bytes);
}
constexpr uint64_t FileBytes(const RegionFileHeader& header) {
  return PagesAt(header) + RoundUpToFileUnit(header.pages_bytes);
}

inline uint32_t HeaderChecksum(RegionFileHeader header) {
  header.checksum = 0;
  return Crc32c(0, std::as_bytes(std::span(&header, 1)));
}
inline uint32_t ChecksumOf(const RegionLife& life) {
  return Crc32c(0, std::as_bytes(std::span(&life, 1)).first(offsetof(RegionLife, checksum)));
}
inline uint32_t ChecksumOf(const RegionRecord& record, std::string_view text) {
  const uint32_t head =
      Crc32c(0, std::as_bytes(std::span(&record, 1)).first(offsetof(RegionRecord, checksum)));
  return Crc32c(head, std::as_bytes(std::span(text)));
}

}  // namespace gossamer
