// Which part of a memory server's heap belongs to which lease.
//
// The heap, [heap_offset, region_bytes), is a grid of whole chunks, and a rest behind the last.
// Memory is handed out as extents. An extent stays with its owner until the owner gives it back:
// the server does not know what clients store in it. An extent is
//   - the first rest that is large enough, as a whole. A rest is what a client gave back unused, or
//     the end of the heap behind the grid. Rests go first, so that they do not lie idle;
//   - otherwise the first free run of adjacent whole chunks.
// Memory handed out was never used: it is zero. A rest that fills its chunk becomes a free chunk.
//
// Invariant: extents and free memory cover the heap exactly, without overlap.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "common/status.h"
#include "proto/control.h"
#include "proto/lock_word.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class ChunkAllocator {
 public:
  struct Extent {
    uint64_t offset;
    uint64_t bytes;
    Lease owner;
    control::ExtentKind kind;
  };

  // Offsets and sizes of extents are multiples of this.
  static constexpr uint64_t kGrain = kNodeAlignment;

  // Requires: `heap_offset` is a multiple of kGrain; `chunk_bytes` is a power of two and at least
  // kGrain. An incomplete grain at the end of the region is left out.
  ChunkAllocator(uint64_t heap_offset, uint64_t region_bytes, uint64_t chunk_bytes);

  uint64_t heap_bytes() const { return heap_bytes_; }
  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  control::Usage usage() const { return {heap_bytes_, free_bytes_, node_bytes_, block_bytes_}; }

  // Returns an extent of at least `bytes`.
  // Errors: InvalidArgument for 0 bytes. Exhausted, with the numbers, if no contiguous free memory
  // of that size is left.
  Result<Extent> Allocate(uint64_t bytes, Lease owner, control::ExtentKind kind);

  // Takes back [offset, offset + bytes), the never-used end of an extent of `owner`.
  // Errors: InvalidArgument if it is not that.
  Status Release(uint64_t offset, uint64_t bytes, Lease owner);

  // Keyed by offset.
  const std::map<uint64_t, Extent>& extents() const { return extents_; }

 private:
  static constexpr uint64_t kNoChunk = ~uint64_t{0};

  uint64_t& BytesOf(control::ExtentKind kind) {
    return kind == control::ExtentKind::kNodes ? node_bytes_ : block_bytes_;
  }
  uint64_t FindChunks(uint64_t count) const;
  void FreeRange(uint64_t offset, uint64_t bytes);
  void FreeWithinChunk(uint64_t chunk, uint64_t offset, uint64_t bytes);
  uint64_t ChunkOffset(uint64_t chunk) const { return heap_offset_ + chunk * chunk_bytes_; }
  uint64_t ChunkEnd(uint64_t chunk) const;
  Error NoMemory(uint64_t bytes) const;

  const uint64_t heap_offset_;
  const uint64_t heap_bytes_;
  const uint64_t chunk_bytes_;
  uint64_t free_bytes_;
  uint64_t node_bytes_ = 0;  // of extents, by kind
  uint64_t block_bytes_ = 0;
  std::vector<bool> chunk_is_free_;     // whole chunks of the grid
  uint64_t first_free_ = 0;             // no chunk before it is free
  std::map<uint64_t, uint64_t> rests_;  // free bytes by offset, each smaller than its chunk
  std::map<uint64_t, Extent> extents_;
};

}  // namespace gossamer
