#include "compute/cache/node_arena.h"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <new>
#include <utility>

namespace gossamer {

void NodeArena::Push(std::byte* block, size_t lines) {
  const size_t list = ListOf(lines);
  free_[list] = ::new (block) FreeBlock{free_[list], lines};
  has_free_.set(list);
  // The address sanitizer reports a use of what was freed.
  ASAN_POISON_MEMORY_REGION(block + sizeof(FreeBlock), lines * kLineBytes - sizeof(FreeBlock));
}

void* NodeArena::TakeFree(size_t lines) {
  for (size_t list = ListOf(lines); list < kLists; ++list) {
    if (!has_free_[list]) continue;
    FreeBlock* const block = free_[list];
    free_[list] = block->next;
    if (free_[list] == nullptr) has_free_.reset(list);
    auto* const start = reinterpret_cast<std::byte*>(block);
    ASAN_UNPOISON_MEMORY_REGION(start, block->lines * kLineBytes);
    const size_t rest = block->lines - lines;
    if (rest != 0) Push(start + lines * kLineBytes, rest);
    return start;
  }
  return nullptr;
}

void NodeArena::AddChunk(size_t least_bytes) {
  if (left_ != 0) Push(next_, left_ / kLineBytes);
  left_ = std::max(chunk_bytes_, least_bytes);
  if (left_ < kHugePageBytes) {
    small_chunks_.emplace_back(
        static_cast<std::byte*>(::operator new(left_, std::align_val_t{kLineBytes})));
    next_ = small_chunks_.back().get();
    chunk_bytes_ = chunk_bytes_ * 2 < kHugePageBytes ? chunk_bytes_ * 2 : kLastChunkBytes;
  } else {
    // A 2 MB page needs an aligned 2 MB of addresses, and mmap aligns to 4 KB only.
    Result<MemoryMapping> mapping = MapMemory(left_ + kHugePageBytes, true);
    if (!mapping) throw std::bad_alloc();
    void* start = mapping.value().data();
    size_t space = mapping.value().bytes();
    next_ = static_cast<std::byte*>(std::align(kHugePageBytes, left_, start, space));
    large_chunks_.push_back(std::move(mapping.value()));
  }
  mapped_bytes_ += left_;
}

void* NodeArena::Allocate(size_t bytes) {
  const size_t lines = LinesFor(Rounded(bytes) / kLineBytes);
  const size_t rounded = lines * kLineBytes;
  if (void* const block = TakeFree(lines)) return block;
  if (rounded > left_) AddChunk(rounded);
  left_ -= rounded;
  return std::exchange(next_, next_ + rounded);
}

void NodeArena::Free(void* block, size_t bytes) {
  Push(static_cast<std::byte*>(block), LinesFor(Rounded(bytes) / kLineBytes));
}

}  // namespace gossamer
