// NodeArena: memory for the nodes of one cache, in whole cache lines.
//
// Blocks come from chunks. The first are small, for small caches; later ones are in 2 MB pages where
// the kernel gives them, because a traversal touches random nodes and each would cost a TLB miss. A freed
// block serves later requests of its size, or of smaller ones. Chunks stay until the arena ends.
//
// Thread-safety: none; under the owner's lock. Cost: a few loads; rarely a system call.
#pragma once

#include <array>
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

  // Returns memory for `bytes`, aligned to a cache line. Throws std::bad_alloc as operator new does.
  void* Allocate(size_t bytes);
  // `block` was allocated with this number of bytes.
  void Free(void* block, size_t bytes);

  // Addresses taken from the machine. Memory is used only where a block was allocated.
  size_t mapped_bytes() const { return mapped_bytes_; }

 private:
  // Blocks of up to this many lines have a list for each size; larger ones share the last.
  static constexpr size_t kSizes = 128;
  static constexpr size_t kFirstChunkBytes = size_t{64} << 10;
  static constexpr size_t kLastChunkBytes = size_t{32} << 20;

  struct FreeBlock {
    FreeBlock* next;
    size_t lines;
  };
  struct AlignedDelete {
    void operator()(std::byte* data) const {
      ::operator delete(data, std::align_val_t{kLineBytes});
    }
  };

  static size_t ListOf(size_t lines) { return lines < kSizes ? lines : kSizes; }
  void Push(std::byte* block, size_t lines);
  // Takes a free block of at least `lines`; null if there is none.
  void* TakeFree(size_t lines);
  void AddChunk(size_t least_bytes);

  std::byte* next_ = nullptr;  // the unused rest of the newest chunk
  size_t left_ = 0;            // its bytes
  size_t chunk_bytes_ = kFirstChunkBytes;
  size_t mapped_bytes_ = 0;
  std::array<FreeBlock*, kSizes + 1> free_{};
  std::bitset<kSizes + 1> has_free_;
  std::vector<std::unique_ptr<std::byte, AlignedDelete>> small_chunks_;
  std::vector<MemoryMapping> large_chunks_;
};

}  // namespace gossamer
