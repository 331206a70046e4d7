// Which part of a memory server's heap belongs to which lease.
//
// The heap, [heap_offset, region_bytes), is a grid of whole chunks, and a rest behind the last.
// Memory is handed out as extents. It stays with its owner until somebody gives it back: the server
// does not know what clients store in it. An extent is
//   - a rest of at least 1/kLargeRests of a chunk: what clients gave back, or the end of the heap behind the grid;
//   - otherwise the first free run of adjacent whole chunks;
//   - otherwise the largest rest.
// A rest that fills its chunk becomes a free chunk.
//
// Memory changes its owner only if the owner gives it back, or after the owner's lease has ended: owners know what they own.
// If somebody else gives it back earlier, it waits, and counts as used. The owner gets it when it asks for memory.
//
// Generations: the first pointers to the pieces of an extent have its generation. The generation of memory that was used
// is the next one of the client that gave it back, so that a pointer to the earlier use does not validate. There are
// few of them: a reader that is later than that goes by the checksum in the entry (value_block.h).
//
// Invariant: extents and free memory cover the heap exactly, without overlap.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
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
    uint8_t generation;
    bool is_waiting = false;  // given back by another than its owner
  };

  // Offsets and sizes of free memory are multiples of this. Nodes start at multiples of their size.
  static constexpr uint64_t kGrain = kBlockAlignment;
  // Memory may hold blocks after nodes. A pointer to a block has fewer of them.
  static constexpr uint8_t kGenerations = BlockPtr::kGenerations;

  // Requires: `heap_offset` is a multiple of kNodeAlignment; `chunk_bytes` is a power of two and at least
  // that. An incomplete kNodeAlignment at the end of the region is left out.
  ChunkAllocator(uint64_t heap_offset, uint64_t region_bytes, uint64_t chunk_bytes);

  uint64_t heap_bytes() const { return heap_bytes_; }
  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t chunk_bytes() const { return chunk_bytes_; }
  control::Usage usage() const { return {heap_bytes_, free_bytes_, node_bytes_, block_bytes_}; }

  // Returns an extent of at least `bytes`, of nodes from a multiple of `bytes` on.
  // Errors: InvalidArgument for 0 bytes. Exhausted, with the numbers, if no contiguous free memory
  // of that size is left.
  Result<Extent> Allocate(uint64_t bytes, Lease owner, control::ExtentKind kind);

  // Takes memory back from `by`. `is_in_force(lease)`: whether an owner's lease is.
  // Errors: InvalidArgument if not all of it is handed out, or if it was never used and belongs to another lease.
  template <typename IsInForce>
  Status Release(const control::Range& range, Lease by, const IsInForce& is_in_force) {
    BOOST_OUTCOME_TRYV(Check(range, by));
    SplitExtentAt(range.offset);
    SplitExtentAt(range.offset + range.bytes);
    auto extent = extents_.find(range.offset);
    while (extent != extents_.end() && extent->first < range.offset + range.bytes) {
      const Lease owner = extent->second.owner;
      extent = owner != by && is_in_force(owner) ? LetWait(extent, range.generation)
                                                 : Free(extent, range.generation);
    }
    return Ok();
  }
  // The lease has ended: frees what waited for its owner.
  void Ended(Lease owner);

  // Keyed by offset.
  const std::map<uint64_t, Extent>& extents() const { return extents_; }

 private:
  static constexpr uint64_t kNoChunk = ~uint64_t{0};
  // A rest of less than 1/kLargeRests of a chunk is left alone while there are free chunks: to ask for
  // memory takes a round trip.
  static constexpr uint64_t kLargeRests = 16;

  // Free memory within a chunk. `generation`: of the next extent.
  struct Rest {
    uint64_t bytes;
    uint8_t generation;
  };
  using Rests = std::map<uint64_t, Rest>;

  uint64_t& BytesOf(control::ExtentKind kind) {
    return kind == control::ExtentKind::kNodes ? node_bytes_ : block_bytes_;
  }
  using Extents = std::map<uint64_t, Extent>;

  Status Check(const control::Range& range, Lease by) const;
  // Both return the extent behind.
  Extents::iterator Free(Extents::iterator extent, uint8_t generation);
  Extents::iterator LetWait(Extents::iterator extent, uint8_t generation);
  // An extent of `owner` that waits for it, if one is large enough.
  std::optional<Extent> TakeWaiting(uint64_t bytes, uint64_t alignment, Lease owner,
                                    control::ExtentKind kind);
  uint64_t FindChunks(uint64_t count) const;
  // The largest rest with room for `bytes` from a multiple of `alignment` on, or of those with `enough` the smallest.
  Rests::iterator FindRest(uint64_t bytes, uint64_t alignment, uint64_t enough);
  Extent TakeRest(Rests::iterator rest, uint64_t alignment);
  Extent TakeChunks(uint64_t first, uint64_t count);
  Rests::iterator AddRest(uint64_t offset, const Rest& rest);
  void EraseRest(Rests::iterator rest);
  // Splits the extent that goes on at `offset`, if one does.
  void SplitExtentAt(uint64_t offset);
  void FreeRange(uint64_t offset, uint64_t bytes, uint8_t generation);
  void FreeWithinChunk(uint64_t chunk, uint64_t offset, Rest rest);
  uint64_t ChunkOffset(uint64_t chunk) const { return heap_offset_ + chunk * chunk_bytes_; }
  uint64_t ChunkEnd(uint64_t chunk) const;
  Error NoMemory(uint64_t bytes) const;

  const uint64_t heap_offset_;
  const uint64_t heap_bytes_;
  const uint64_t chunk_bytes_;
  uint64_t free_bytes_;
  uint64_t node_bytes_ = 0;  // of extents, by kind
  uint64_t block_bytes_ = 0;
  std::vector<bool> chunk_is_free_;                        // whole chunks of the grid
  std::vector<uint8_t> chunk_generation_;                  // of each free one, as in Rest
  uint64_t first_free_ = 0;                                // no chunk before it is free
  Rests rests_;                                            // by offset, each smaller than its chunk
  std::set<std::pair<uint64_t, uint64_t>> rests_by_size_;  // bytes and offset
  Extents extents_;
  // Extents that wait, by compute id and incarnation of their owners; by size and offset.
  std::map<std::pair<uint16_t, uint32_t>, std::set<std::pair<uint64_t, uint64_t>>> waiting_;
};

}  // namespace gossamer
