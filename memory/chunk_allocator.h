// Which part of a memory server's heap belongs to which lease.
//
// The heap, [heap_offset, region_bytes), is a grid of whole chunks, and a rest behind the last.
// Memory is handed out as extents. It stays with its owner until somebody gives it back: the server
// does not know what clients store in it. An extent is
//   - a rest, given back or behind the grid, of at least 1/kLargeRests of a chunk;
//   - otherwise the first free run of adjacent whole chunks;
//   - otherwise a large rest.
// A rest that fills its chunk becomes a free chunk.
//
// Memory changes its owner only if the owner gives it back or up, or after the owner's lease has
// ended: owners know what they own. Memory that another compute server gives back waits until then,
// and counts as used. An owner that asks for memory gets what waits for it first.
//
// Generations: the first pointers to the pieces of an extent have its generation, which is the next
// one after the last use of its memory, so that a pointer to the earlier use does not validate.
// Nodes and blocks count them apart. Those of blocks are few, and begin anew after the last one: a
// reader that is later than that goes by the checksum in the entry (value_block.h). Memory whose
// generations of nodes are used up is worn: it is handed out for blocks only, until all compute
// servers have acknowledged a later epoch (control.h). Then no pointer from before is left, and
// they begin anew.
//
// What is known of the memory is kept in runs. A run is memory with one owner, or free, that is
// alike in all that decides what may become of it: what it holds, whether it waits, and whether it
// is worn. Neighbours that are alike are one run, with the greatest of their generations: a
// generation may be skipped, it may not come again. Free runs do not cross chunks.
//
// Restarts: the runs and their owners are in a HeapMap, which may lie in memory that survives this
// process, and is true whenever that is killed. All else is made from it again. A change first
// splits runs in the map, which means nothing, then says what a part is, then joins it with
// neighbours that are alike.
//
// Memory: BookkeepingBytes() of address space from the start, which is 4.9 bytes for each 64 of the
// heap, and half a MiB. Pages of it are touched where runs begin; two for each chunk at least.
// Beside it 250 bytes for each lease that holds memory, and 64 for each chunk in which memory waits
// for a lease.
// Cost: counts are kept. A call looks at as many runs as it frees or grants, and at up to
// kMostLooks to find them.
//
// Invariant: runs cover the heap exactly, without overlap.
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "memory/grain_set.h"
#include "memory/heap_map.h"
#include "proto/control.h"
#include "proto/lock_word.h"
#include "proto/region.h"

namespace gossamer {

// The owner that is named with orphaned memory.
inline Lease OwnerIn(const control::Range& range) {
  return {static_cast<ComputeId>(range.compute_id), range.incarnation};
}

class ChunkAllocator {
 public:
  using Generations = HeapMap::Generations;
  using Owner = HeapMap::Owner;

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
  static constexpr uint64_t kGrain = HeapMap::kGrain;
  // So many runs at most are looked at in search of one that fits. The next search goes on behind
  // them.
  static constexpr uint64_t kMostLooks = 1024;
  // So many leases may hold memory at one time, those that have ended among them.
  static constexpr size_t kMostOwners = HeapMap::kMostHolders;

  // All is free. Requires: `heap_offset` is a multiple of kNodeAlignment; `chunk_bytes` is a power
  // of two and at least that. An incomplete kNodeAlignment at the end of the region is left out.
  ChunkAllocator(uint64_t heap_offset, uint64_t region_bytes, uint64_t chunk_bytes);
  // The same with a map that is new, or that an earlier process has left. No lease of that process
  // is in force any more: what waited is free, and what is handed out is orphaned. Worn memory
  // counts as worn in `epoch`, the present one. Chunks may be of another size than before.
  // Errors: Corruption, with an offset, if the map is damaged or is of a heap of another size.
  // Cost: linear in the runs.
  static Result<ChunkAllocator> Open(uint64_t heap_offset, uint64_t region_bytes,
                                     uint64_t chunk_bytes, HeapMap map,
                                     uint32_t epoch = control::kFirstEpoch);

  // Of the heap, for a HeapMap.
  static uint64_t GrainsOf(uint64_t heap_offset, uint64_t region_bytes);
  // Of the map of a region's heap.
  static uint64_t MapBytes(uint64_t region_bytes) {
    return HeapMap::BytesFor(GrainsOf(kHeapOffset, region_bytes));
  }
  // With those of the HeapMap, HeapMap::BytesFor.
  static uint64_t BookkeepingBytes(uint64_t heap_bytes, uint64_t chunk_bytes);

  // How much memory is handed out to the lease.
  uint64_t BytesOf(Lease owner) const;
  uint64_t heap_bytes() const { return grains_ * kGrain; }
  uint64_t free_bytes() const { return free_grains_ * kGrain; }
  uint64_t chunk_bytes() const { return chunk_grains_ * kGrain; }
  control::Usage usage() const {
    return {heap_bytes(), free_bytes(), node_grains_ * kGrain, block_grains_ * kGrain};
  }
  // Of all memory, whatever it is used for.
  uint64_t worn_bytes() const { return worn_.grains() * kGrain; }
  uint64_t waiting_bytes() const { return waiting_grains_ * kGrain; }
  // Of leases that have ended.
  uint64_t orphaned_bytes() const { return orphaned_grains_ * kGrain; }
  uint64_t extents() const { return handed_out_runs_; }
  // The first memory that is handed out at or behind `from`: neighbours that are alike are one
  // extent.
  std::optional<Extent> NextExtent(uint64_t from) const;

  // Returns an extent of at least `bytes`, of nodes from a multiple of `bytes` on: one that waits
  // for the owner, or of free memory.
  // Errors: InvalidArgument for 0 bytes. Exhausted, with the numbers, if no contiguous free memory
  // of that size is left, or too many leases hold memory.
  Result<Extent> Allocate(uint64_t bytes, Owner owner, control::ExtentKind kind);
  // Hands out what waits for the owner: up to `most` extents like that, of a chunk together or one.
  std::vector<Extent> AllocateWaiting(uint64_t bytes, Lease owner, control::ExtentKind kind,
                                      size_t most);

  // Takes memory back from `by` in the present `epoch`. `is_in_force(lease)`: whether an owner's
  // lease is.
  // Errors: InvalidArgument if not all of it is handed out, or if it is not for `by` to give back
  // (see control::Past).
  template <typename IsInForce>
  Status Release(const control::Range& range, Lease by, uint32_t epoch,
                 const IsInForce& is_in_force) {
    const bool is_orphaned = range.past == control::Past::kOrphaned;
    BOOST_OUTCOME_TRYV(Check(range, by, is_orphaned && is_in_force(OwnerIn(range))));
    const uint64_t end = GrainAt(range.offset) + range.bytes / kGrain;
    for (uint64_t at = GrainAt(range.offset); at < end;) {
      const Run run = RunAt(at);
      const Lease owner = map_.OwnerAt(run.use.owner).lease;
      const bool waits = !is_orphaned && owner != by && is_in_force(owner);
      Take(run, at, std::min(end, run.end), range, waits, epoch);
      at = run.end;
    }
    return Ok();
  }
  // The lease has ended: frees what waited for its owner.
  void Ended(Lease owner);
  // What waits for the owner, up to `most` pieces, and the number of this offer. It ends earlier
  // offers to the lease.
  struct Offer {
    uint32_t number = 0;
    std::vector<control::WaitingRange> ranges;
  };
  Offer MakeOffer(Lease owner, size_t most);
  // Frees what has waited for the owner since that offer was made (rule G1), unless it has ended.
  // Returns the bytes.
  uint64_t GiveUp(Lease owner, uint32_t offer);
  // All epochs before `oldest` have ended everywhere: memory that was worn in them is as new,
  // perhaps an epoch later.
  void EndEpochsBefore(uint32_t oldest);

  // How many runs all calls together have looked at: what they cost.
  uint64_t looks() const { return looks_; }

 private:
  // A rest of less than 1/kLargeRests of a chunk is left alone while there are free chunks: to ask
  // for memory takes a round trip.
  static constexpr uint64_t kLargeRests = 16;
  static constexpr uint16_t kFree = HeapMap::kFree;

  using Use = HeapMap::Use;
  using Run = HeapMap::Run;
  // What is known, beside the map, of a lease that holds memory.
  struct Holder {
    uint64_t grains = 0;
    bool has_ended = false;
    // Where memory waits for it: how many runs begin in each chunk.
    std::map<uint64_t, uint64_t> waiting_in;
    uint64_t wanted_from = 0;   // where the next search for what waits begins,
    uint64_t offered_from = 0;  // and that for the next offer
    Offer offer;                // of what still waits
  };
  // Worn memory becomes as new in two cohorts: one that waits for an epoch to end, and one that has
  // become worn since that began. So no memory waits for more than two epochs, and a run needs one
  // bit to tell.
  struct Worn {
    struct Cohort {
      uint32_t worn_in = control::kFirstEpoch;  // the last epoch in which memory of it was
      uint64_t grains = 0;
    };
    std::array<Cohort, Generations::kCohorts> cohorts;
    size_t older = 0;  // of them

    uint64_t grains() const { return cohorts[0].grains + cohorts[1].grains; }
    // The `of_nodes` of memory that is worn in `epoch`.
    uint16_t In(uint32_t epoch);
  };
  struct ById {
    bool operator()(Lease left, Lease right) const {
      return std::pair(left.compute, left.incarnation) <
             std::pair(right.compute, right.incarnation);
    }
  };
  struct Wanted {
    Wanted(uint64_t bytes, control::ExtentKind kind);
    uint64_t grains;
    uint64_t alignment;  // of the offset; in bytes
    control::ExtentKind kind;
  };

  ChunkAllocator(uint64_t heap_offset, uint64_t chunk_bytes, HeapMap map);

  // `is_owned`: it is said to be orphaned, and the owner's lease is in force.
  Status Check(const control::Range& range, Lease by, bool is_owned) const;
  // Why the part of the range in `run` cannot be given back; empty if it can.
  std::string WhyNot(const control::Range& range, const Run& run, Lease by) const;
  // Takes [from, to) of the run back: it waits for its owner from then on, or is free.
  void Take(const Run& run, uint64_t from, uint64_t to, const control::Range& range, bool waits,
            uint32_t epoch);
  Generations Next(const Use& use, const control::Range& range, uint32_t epoch);

  uint64_t OffsetOf(uint64_t grain) const { return heap_offset_ + grain * kGrain; }
  uint64_t GrainAt(uint64_t offset) const { return (offset - heap_offset_) / kGrain; }
  Extent ExtentOf(const Run& run) const;

  // -- runs

  Run RunAt(uint64_t grain) const;
  // Adds a run that was cut out: says in the map what it is now, and joins it with its neighbours.
  // A free one is split at the ends of chunks.
  void Add(Run run);
  // A free run ends with its chunk: splits it there, and returns the first part. Others stay.
  Run FirstPart(const Run& run);
  // Takes [from, to) out of the run, for the caller to add again. In the map it is what it was.
  Run CutOut(const Run& run, uint64_t from, uint64_t to);
  // Adds the run to all counts and indexes beside the map, or removes it.
  void Link(const Run& run);
  void Unlink(const Run& run);
  void Count(const Run& run, bool is_added);
  // Frees what was cut out.
  void Free(Run run);

  // -- owners

  uint16_t FindHolder(Lease lease) const;
  // kFree: there are too many.
  uint16_t HolderOf(const Owner& owner);
  void ForgetIfEmpty(uint16_t holder);
  // Calls visit(run) for what waits for the holder, from `from` on and then from the start, until
  // it returns false. Sets `from` to where it ended if that was after kMostLooks.
  template <typename Visit>
  void VisitWaiting(uint16_t holder, uint64_t& from, const Visit& visit) const;

  // -- free memory by size

  // The place in the run for what is wanted.
  std::optional<uint64_t> Place(const Run& run, const Wanted& wanted) const;
  // A free run of that class, of at least `least` grains, that has room.
  std::optional<Run> FindInClass(size_t size_class, const Wanted& wanted, uint64_t least,
                                 uint64_t& looks_left);
  std::optional<Run> FindRest(const Wanted& wanted, bool is_large, uint64_t& looks_left);
  // Adjacent free chunks, as one run.
  std::optional<Run> FindChunks(const Wanted& wanted);
  Error NoMemory(uint64_t bytes) const;

  const uint64_t heap_offset_;
  const uint64_t grains_;
  const uint64_t chunk_grains_;
  uint64_t free_grains_ = 0;
  uint64_t node_grains_ = 0;
  uint64_t block_grains_ = 0;
  uint64_t waiting_grains_ = 0;
  uint64_t orphaned_grains_ = 0;
  uint64_t handed_out_runs_ = 0;
  uint64_t free_runs_ = 0;
  uint64_t free_chunks_ = 0;
  Worn worn_;
  mutable uint64_t looks_ = 0;
  uint64_t searched_to_ = 0;  // where the last search ended that looked at too many runs
  uint32_t last_offer_ = 0;

  HeapMap map_;
  GrainSet waiting_;    // where runs begin that wait
  GrainSet worn_runs_;  // where worn runs begin
  // Free runs by classes of size, the last of which is that of whole chunks. At most one run of a
  // class begins in the smallest power of two of grains below its sizes: that is a unit of its set.
  std::vector<GrainSet> free_by_class_;
  std::vector<Holder> holders_{1};  // by their index in the map; [kFree] is nobody
  std::vector<uint16_t> unused_holders_;
  std::map<Lease, uint16_t, ById> holder_of_;
};

}  // namespace gossamer
