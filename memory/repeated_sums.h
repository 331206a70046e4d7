// RepeatedSums: checksums that a saved file leaves out, because it has them twice.
//
// A value block begins with its checksum, and the entry that refers to it has the same one
// (proto/value_block.h). A checksum cannot be compressed. So where a leaf of the same memory server
// refers to a block, and the block is whole, its own checksum is zero in the file, and is put back
// from the entry of which the checksum is that of the bytes. A block keeps its own if several
// entries with different checksums match it, or if the leaf is on another server.
//
// The memory must be at rest.
// Cost: of each leaf its checksums; of each block to which it refers, too. By several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "memory/heap_map.h"
#include "proto/region.h"

namespace gossamer {

// What is known of the region at rest.
struct RestingRegion {
  std::span<std::byte> bytes;
  RegionHeader header;
  HeapMap map;
};

class RepeatedSums {
 public:
  // Finds the whole blocks to which leaves refer.
  RepeatedSums(const RestingRegion& region, unsigned threads);

  // Makes those zero in `copy`, which is of what the region has from `at` on, a multiple of
  // kBlockAlignment.
  void LeaveOut(uint64_t at, std::span<std::byte> copy) const;
  // Puts back those that are zero in `region`.
  static void PutBack(const RestingRegion& region, unsigned threads);

 private:
  std::vector<std::atomic<uint64_t>> found_;  // a bit for each place where a block may begin
};

}  // namespace gossamer
