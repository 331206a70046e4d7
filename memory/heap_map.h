// HeapMap: which memory of a heap is handed out, to which lease, and under which generations.
//
// It lies in memory that may survive the process. Whenever the process is killed, even between two
// stores of one change, the map
//   - covers the heap exactly, without overlap;
//   - shows no memory as free that is handed out, and names its owner;
//   - shows no generation below one that may have been used.
// Each change is a few stores, and the map is true after each of them. Memory outlives a process
// with the stores that the process has made, in their order. So it is enough that the compiler
// keeps that order: they are release stores, and nothing is flushed.
//
// The map is of runs. A run is memory with one owner, or free, that is alike in all that decides
// what may become of it. A kill may leave neighbours apart that are alike.
//
// Layout of BytesFor(g) bytes for a heap of g grains of 64 bytes; all numbers are little-endian:
//
//   offset                  bytes            contents
//   0                       16 * 32,768      holders, by index; the first is not used. Of each:
//                                              +0   8  uuid of the compute server
//                                              +8   4  incarnation of its lease
//                                              +12  2  compute id
//                                              +14  2  0
//   524,288                 w = 8 * ⌈g / 64⌉ starts: bit i % 64 of word i / 64 is 1 if a run
//                                              begins at grain i. One begins at grain 0.
//   524,288 + w             4 * g            uses, by grain: of the run that begins there, until
//                                              the next one begins
//
// A use, from the lowest bit on:
//
//   bits   contents
//   15     index of the holder; 0: the run is free, and the next two bits are 0
//   1      1: it holds blocks, 0: nodes
//   1      1: it waits for its owner
//   6      next generation of blocks
//   9      next generation of nodes; 256 and 257: they are used up, in one of two cohorts
//
// What no start and no use refers to has no meaning: uses where no run begins, and holders that no
// run names. A new map is of zeros but for the start at grain 0. Pages are touched when they are
// first needed.
//
// Beside the map, the process keeps summaries of the starts (GrainSet).
// Thread-safety: none.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "memory/grain_set.h"
#include "proto/control.h"
#include "proto/lock_word.h"
#include "proto/remote_ptr.h"

namespace gossamer {

class HeapMap {
 public:
  static constexpr uint64_t kGrain = kBlockAlignment;
  // So many leases may hold memory at one time.
  static constexpr size_t kMostHolders = (1 << 15) - 1;
  static constexpr uint16_t kFree = 0;

  struct Owner {
    Lease lease;
    uint64_t client_uuid = 0;
  };

  // Of the next pointers to memory.
  struct Generations {
    static constexpr uint16_t kOfNodes = RemotePtr::kGenerations;
    static constexpr uint8_t kOfBlocks = BlockPtr::kGenerations;
    static constexpr uint16_t kCohorts = 2;

    // From kOfNodes on: they are used up, and the difference is the memory's cohort.
    uint16_t of_nodes = 0;
    uint8_t of_blocks = 0;

    bool AllowNodes() const { return of_nodes < kOfNodes; }
    bool Allow(control::ExtentKind kind) const {
      return kind != control::ExtentKind::kNodes || AllowNodes();
    }
    // Of memory that has the past of both. Requires (unchecked): both allow nodes, or they are of
    // one cohort.
    Generations With(const Generations& other) const {
      return {std::max(of_nodes, other.of_nodes), std::max(of_blocks, other.of_blocks)};
    }
  };

  // What is known of a run, in 32 bits.
  struct Use {
    uint16_t owner = kFree;  // the index of a holder
    control::ExtentKind kind = control::ExtentKind::kNodes;
    bool is_waiting = false;
    Generations next;

    uint32_t Pack() const;
    static Use Unpack(uint32_t word);
    bool IsLike(const Use& other) const;
    // Of the same memory when it is free: then it is alike in all but the generations.
    Use Freed() const { return {.next = next}; }
  };

  // Of grains [first, end).
  struct Run {
    uint64_t first;
    uint64_t end;
    Use use;
    uint64_t grains() const { return end - first; }
    bool is_free() const { return use.owner == kFree; }
  };

  // A new map, in memory of its own: all is one free run.
  static HeapMap New(uint64_t grains);
  // The same in `memory`, which is all zeros. Requires: it is aligned to 8, and has
  // BytesFor(grains) bytes.
  static HeapMap New(std::span<std::byte> memory, uint64_t grains);
  // The map that another process has left in `memory`; it must still be checked. Requires: as for
  // New. Cost: reads all starts.
  static HeapMap Left(std::span<std::byte> memory, uint64_t grains);

  static constexpr uint64_t BytesFor(uint64_t grains) {
    return kBytesOfHolders + BytesOfStarts(grains) + grains * sizeof(uint32_t);
  }
  // Of the process, beside the map.
  static constexpr uint64_t SummaryBytesFor(uint64_t grains) {
    return GrainSet::BytesFor(grains) - BytesOfStarts(grains);
  }

  // Whether it is a map at all. `heap_offset`: of grain 0, for messages.
  // Errors: Corruption, with the offset of the first run that cannot be.
  // Cost: linear in the runs.
  Status Check(uint64_t heap_offset) const;

  uint64_t grains() const { return grains_; }
  Run RunAt(uint64_t grain) const {
    const uint64_t first = starts_.Previous(grain);
    return {first, std::min(starts_.Next(first + 1), grains_), Use::Unpack(uses_[first])};
  }
  // Requires (unchecked): a run names the index, or SetHolder has.
  Owner OwnerAt(uint16_t index) const;

  // The run that begins at `first` is two that are alike, the second of them from `at` on.
  void Split(uint64_t first, uint64_t at);
  // Says what the run is that begins at `first`.
  void SetUse(uint64_t first, const Use& use);
  // Neighbours that are alike, and begin at `left` and `right`, are one run, with the greatest of
  // their generations: a generation may be skipped, it may not come again. Returns its use.
  Use Join(uint64_t left, uint64_t right);
  // Requires (unchecked): no run names the index, which is not kFree.
  void SetHolder(uint16_t index, const Owner& owner);

 private:
  struct Holder {
    uint64_t client_uuid;
    uint64_t lease;  // the incarnation, and the compute id from bit 32 on
  };
  static constexpr uint64_t kBytesOfHolders = (kMostHolders + 1) * sizeof(Holder);
  static constexpr uint64_t BytesOfStarts(uint64_t grains) {
    return GrainSet::WordsFor(grains) * sizeof(uint64_t);
  }
  static_assert(sizeof(Holder) == 16 && kBytesOfHolders == 524'288);
  static_assert(std::endian::native == std::endian::little);

  HeapMap(ZeroedArray<uint64_t> own, std::span<std::byte> memory, uint64_t grains);
  void StartFirstRun();

  uint64_t grains_;
  ZeroedArray<uint64_t> own_;  // memory, if the caller gives none
  Holder* holders_;
  GrainSet starts_;
  uint32_t* uses_;
};

}  // namespace gossamer
