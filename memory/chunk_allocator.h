// Which part of a memory server's heap belongs to which lease.
//
// The heap, [heap_offset, region_bytes), is a grid of whole chunks, and a rest behind the last.
// Memory is handed out as extents. It stays with its owner until somebody gives it back: the server
// does not know what clients store in it. An extent is
//   - a rest of at least 1/kLargeRests of a chunk. A rest is what clients gave back, or the end of the heap behind the grid;
//   - otherwise the first free run of adjacent whole chunks;
//   - otherwise the largest rest.
// A rest that fills its chunk becomes a free chunk.
//
// Memory changes its owner only if the owner gives it back or up, or after the owner's lease has ended: owners know what they
// own. Memory that another compute server gives back waits until then, and counts as used. An owner that asks for memory
// gets what waits for it first.
//
// Generations: the first pointers to the pieces of an extent have its generation, which is the next one after the last use
// of its memory, so that a pointer to the earlier use does not validate. Nodes and blocks count them apart. Those of blocks
// are few, and begin anew after the last one: a reader that is later than that goes by the checksum in the entry
// (value_block.h). Memory whose generations of nodes are used up is worn: it is handed out for blocks only, until all
// compute servers have acknowledged a later epoch (control.h). Then no pointer from before is left, and they begin anew.
//
// Invariant: extents and free memory cover the heap exactly, without overlap.
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "proto/control.h"
#include "proto/lock_word.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class ChunkAllocator {
 public:
  // Of the next pointers to memory.
  struct Generations {
    static constexpr uint16_t kOfNodes = RemotePtr::kGenerations;
    static constexpr uint8_t kOfBlocks = BlockPtr::kGenerations;

    uint16_t of_nodes = 0;  // kOfNodes: they are used up
    uint8_t of_blocks = 0;
    uint32_t worn_in = 0;  // the epoch in which they were

    bool AllowNodes() const { return of_nodes < kOfNodes; }
    bool Allow(control::ExtentKind kind) const {
      return kind != control::ExtentKind::kNodes || AllowNodes();
    }
    // Of memory that has the past of both.
    Generations With(const Generations& other) const {
      return {std::max(of_nodes, other.of_nodes), std::max(of_blocks, other.of_blocks),
              std::max(worn_in, other.worn_in)};
    }
    // After a use as `kind` up to `epoch`, whose last pointers had the range's generation.
    Generations After(const control::Range& range, control::ExtentKind kind, uint32_t epoch) const {
      Generations after = *this;
      const int next = range.generation + (range.past == control::Past::kUsed ? 1 : 0);
      if (kind == control::ExtentKind::kNodes) {
        after.of_nodes = static_cast<uint16_t>(next);
        after.worn_in = epoch;
      } else {
        after.of_blocks = static_cast<uint8_t>(next % kOfBlocks);
      }
      return after;
    }
  };

  struct Owner {
    Lease lease;
    uint64_t client_uuid = 0;
  };

  struct Extent {
    uint64_t offset;
    uint64_t bytes;
    Owner owner;
    control::ExtentKind kind;
    Generations next;
    bool is_waiting = false;  // given back by another than its owner

    uint8_t generation() const {
      return kind == control::ExtentKind::kNodes ? static_cast<uint8_t>(next.of_nodes)
                                                 : next.of_blocks;
    }
  };

  // Offsets and sizes of free memory are multiples of this. Nodes start at multiples of their size.
  static constexpr uint64_t kGrain = kBlockAlignment;

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
  Result<Extent> Allocate(uint64_t bytes, Owner owner, control::ExtentKind kind);

  // Takes memory back from `by` in the present `epoch`. `is_in_force(lease)`: whether an owner's lease is.
  // Errors: InvalidArgument if not all of it is handed out, or if it is not for `by` to give back (see control::Past).
  template <typename IsInForce>
  Status Release(const control::Range& range, Lease by, uint32_t epoch,
                 const IsInForce& is_in_force) {
    BOOST_OUTCOME_TRYV(Check(range, by));
    const bool is_orphaned = range.past == control::Past::kOrphaned;
    if (is_orphaned && is_in_force(OwnerIn(range))) return NotOrphaned(range);
    SplitExtentAt(range.offset);
    SplitExtentAt(range.offset + range.bytes);
    auto extent = extents_.find(range.offset);
    while (extent != extents_.end() && extent->first < range.offset + range.bytes) {
      const Lease owner = extent->second.owner.lease;
      const bool waits = extent->second.is_waiting;
      if (!waits) SetNext(extent->second, range, epoch);
      if (waits) StopWaiting(extent);
      extent = !is_orphaned && owner != by && is_in_force(owner) ? LetWait(extent) : Free(extent);
    }
    return Ok();
  }
  // The lease has ended: frees what waited for its owner.
  void Ended(Lease owner);
  // What waits for the owner, up to `most` pieces, and the number of this offer. It ends earlier offers to the lease.
  struct Offer {
    uint32_t number = 0;
    std::vector<control::WaitingRange> ranges;
  };
  const Offer& MakeOffer(Lease owner, size_t most);
  // Frees what has waited for the owner since that offer was made (rule G1), unless it has ended. Returns the bytes.
  uint64_t GiveUp(Lease owner, uint32_t offer);
  // All epochs before `oldest` have ended everywhere: memory that was worn in them is as new.
  void EndEpochsBefore(uint32_t oldest);
  // Of all memory, whatever it is used for; about.
  uint64_t worn_bytes() const { return worn_bytes_; }
  uint64_t waiting_bytes() const { return waiting_bytes_; }

  // Keyed by offset.
  const std::map<uint64_t, Extent>& extents() const { return extents_; }

 private:
  static constexpr uint64_t kNoChunk = ~uint64_t{0};
  // A rest of less than 1/kLargeRests of a chunk is left alone while there are free chunks: to ask for
  // memory takes a round trip.
  static constexpr uint64_t kLargeRests = 16;

  // Free memory within a chunk.
  struct Rest {
    uint64_t bytes;
    Generations next;
  };
  using Rests = std::map<uint64_t, Rest>;

  using Extents = std::map<uint64_t, Extent>;

  uint64_t& BytesOf(control::ExtentKind kind) {
    return kind == control::ExtentKind::kNodes ? node_bytes_ : block_bytes_;
  }
  static Lease OwnerIn(const control::Range& range) {
    return {static_cast<ComputeId>(range.compute_id), range.incarnation};
  }
  static Error NotOrphaned(const control::Range& range);
  Status Check(const control::Range& range, Lease by) const;
  // Why the part of the range in `extent` cannot be given back; empty if it can.
  static std::string WhyNot(const control::Range& range, const Extent& extent, Lease by);
  void SetNext(Extent& extent, const control::Range& range, uint32_t epoch);
  void StopWaiting(Extents::iterator extent);
  // Rule G1: the memory waits no more, not even if it will wait again.
  void LeaveOffer(const Extent& extent);
  // Both return the extent behind.
  Extents::iterator Free(Extents::iterator extent);
  Extents::iterator LetWait(Extents::iterator extent);
  // An extent of `owner` that waits for it, if one is large enough.
  std::optional<Extent> TakeWaiting(uint64_t bytes, uint64_t alignment, Lease owner,
                                    control::ExtentKind kind);
  uint64_t FindChunks(uint64_t count, control::ExtentKind kind) const;
  // The smallest rest of at least `enough` that has room for `bytes` from a multiple of `alignment` on, and may be used as
  // `kind`. If there is none, the largest rest that has room.
  Rests::iterator FindRest(uint64_t bytes, uint64_t alignment, uint64_t enough,
                           control::ExtentKind kind);
  Extent TakeRest(Rests::iterator rest, uint64_t alignment);
  Extent TakeChunks(uint64_t first, uint64_t count);
  void AddRest(uint64_t offset, const Rest& rest);
  void EraseRest(Rests::iterator rest);
  // Splits the extent that goes on at `offset`, if one does.
  void SplitExtentAt(uint64_t offset);
  void FreeRange(uint64_t offset, uint64_t bytes, Generations next);
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
  uint64_t waiting_bytes_ = 0;
  uint64_t worn_bytes_ = 0;
  std::vector<bool> chunk_is_free_;                        // whole chunks of the grid
  std::vector<Generations> chunk_next_;                    // of each free one, as in Rest
  uint64_t first_free_ = 0;                                // no chunk before it is free
  Rests rests_;                                            // by offset, each smaller than its chunk
  std::set<std::pair<uint64_t, uint64_t>> rests_by_size_;  // bytes and offset
  Extents extents_;
  // Extents that wait, by compute id and incarnation of their owners; by size and offset.
  std::map<std::pair<uint16_t, uint32_t>, std::set<std::pair<uint64_t, uint64_t>>> waiting_;
  std::map<std::pair<uint16_t, uint32_t>, Offer> offers_;  // likewise; ranges that still wait
  uint32_t last_offer_ = 0;
};

}  // namespace gossamer
