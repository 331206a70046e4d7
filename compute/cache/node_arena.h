// NodeArena: memory for the nodes of one cache, in whole cache lines.
//
// Blocks come from chunks. The first are small, for small caches; later ones are in 2 MB pages
// where the kernel makes some on first touch, because a traversal touches random nodes and each
// would cost a TLB miss. (Reserved pages, vm.nr_hugepages, are left to memory servers.) Chunks stay
// until the arena ends.
//
// A freed block serves later requests of its size, or of smaller ones, and joins its free
// neighbours: no two free blocks of a chunk are neighbours. So the memory in use does not creep up
// while nodes of many sizes replace each other.
//
// Sizes are whole lines; those of large blocks (the roots of indexes) are rounded up by an eighth
// at most. So each size has a list of free blocks, of which any one serves.
//
// Thread-safety: none; under the owner's lock. Cost: a few loads, and a binary search of the
// chunks; rarely a system call.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cstddef>
#include <memory>
#include <vector>

#include "common/huge_pages.h"

namespace gossamer {

class NodeArena {
 public:
  static constexpr size_t kLineBytes = 64;

  static constexpr size_t Rounded(size_t bytes) {
    return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  }

  NodeArena() = default;
  NodeArena(const NodeArena&) = delete;
  NodeArena& operator=(const NodeArena&) = delete;

  // Returns memory for `bytes`, aligned to a cache line. Throws std::bad_alloc as operator new
  // does, and then changes nothing.
  void* Allocate(size_t bytes);
  // `block` was allocated with this number of bytes.
  void Free(void* block, size_t bytes);

  // Addresses taken from the machine. Memory is used only where a block was allocated.
  size_t mapped_bytes() const { return mapped_bytes_; }
  // Without the rest of the newest chunk, from which no block was taken yet.
  size_t used_bytes() const { return mapped_bytes_ - left_; }

 private:
  // Blocks of fewer lines have a list for each size. Above, each power of two has kSteps lists.
  static constexpr size_t kSmallSizes = 128;
  static constexpr size_t kSteps = 8;
  static constexpr size_t kLists = kSmallSizes + 16 * kSteps;
  static constexpr size_t kFirstChunkBytes = size_t{64} << 10;
  static constexpr size_t kLastChunkBytes = size_t{32} << 20;

  // At the start of a free block. Its last word has the lines again.
  struct FreeBlock {
    FreeBlock* before;
    FreeBlock* behind;
    size_t lines;
  };
  static_assert(sizeof(FreeBlock) + sizeof(size_t) <= kLineBytes);

  struct AlignedDelete {
    void operator()(std::byte* data) const {
      ::operator delete(data, std::align_val_t{kLineBytes});
    }
  };
  struct Chunk {
    std::byte* start = nullptr;
    size_t bytes = 0;
    std::vector<bool> is_edge;  // for each line: it is the first or the last one of a free block
    // Owns the memory: one of the two.
    std::unique_ptr<std::byte, AlignedDelete> small;
    MemoryMapping large;

    size_t LineOf(const std::byte* block) const {
      return static_cast<size_t>(block - start) / kLineBytes;
    }
  };

  // The lines that a request for so many gets.
  static size_t LinesFor(size_t lines) {
    if (lines < kSmallSizes) return lines;
    const size_t step = std::bit_floor(lines) / kSteps;
    return (lines + step - 1) / step * step;
  }
  // The list of free blocks with so many lines. Those of a list serve any request whose LinesFor
  // has that list.
  static size_t ListOf(size_t lines) {
    if (lines < kSmallSizes) return lines;
    const size_t power = std::bit_floor(lines);
    const auto powers = static_cast<size_t>(std::countr_zero(power / kSmallSizes));
    return std::min(kSmallSizes + powers * kSteps + (lines - power) / (power / kSteps), kLists - 1);
  }
  static Chunk MakeChunk(size_t bytes);
  Chunk& ChunkOf(const std::byte* block);
  // Frees `lines` of `chunk`, together with free neighbours.
  void Join(Chunk& chunk, std::byte* block, size_t lines);
  void Push(Chunk& chunk, std::byte* block, size_t lines);
  void Unlink(Chunk& chunk, FreeBlock* block);
  // Takes a free block of `lines`, which LinesFor has rounded; null if there is none.
  void* TakeFree(size_t lines);
  void AddChunk(size_t least_bytes);

  std::byte* next_ = nullptr;  // the unused rest of the newest chunk
  size_t left_ = 0;            // its bytes
  size_t chunk_bytes_ = kFirstChunkBytes;
  size_t mapped_bytes_ = 0;
  std::array<FreeBlock*, kLists> free_{};
  std::bitset<kLists> has_free_;
  std::vector<Chunk> chunks_;  // ascending addresses
};

}  // namespace gossamer
