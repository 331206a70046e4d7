#include "compute/cache/node_arena.h"

#include <sanitizer/asan_interface.h>

#include <algorithm>
#include <new>
#include <utility>

namespace gossamer {
namespace {

// The last word of a block of so many lines.
size_t& LinesAtEnd(std::byte* block, size_t lines) {
  return *reinterpret_cast<size_t*>(block + lines * NodeArena::kLineBytes - sizeof(size_t));
}

}  // namespace

NodeArena::Chunk NodeArena::MakeChunk(size_t bytes) {
  Chunk chunk;
  if (bytes < kHugePageBytes) {
    chunk.small.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{kLineBytes})));
    chunk.start = chunk.small.get();
  } else {
    // A 2 MB page needs an aligned 2 MB of addresses, and mmap aligns to 4 KB only.
    Result<MemoryMapping> mapping = MapTransparentPages(bytes + kHugePageBytes);
    if (!mapping) throw std::bad_alloc();
    void* start = mapping.value().data();
    size_t space = mapping.value().bytes();
    chunk.start = static_cast<std::byte*>(std::align(kHugePageBytes, bytes, start, space));
    chunk.large = std::move(mapping.value());
  }
  chunk.bytes = bytes;
  chunk.is_edge.resize(bytes / kLineBytes);
  return chunk;
}

NodeArena::Chunk& NodeArena::ChunkOf(const std::byte* block) {
  return *--std::ranges::upper_bound(chunks_, block, {}, &Chunk::start);
}

void NodeArena::Push(Chunk& chunk, std::byte* block, size_t lines) {
  const size_t list = ListOf(lines);
  FreeBlock* const behind = free_[list];
  free_[list] = ::new (block) FreeBlock{nullptr, behind, lines};
  if (behind != nullptr) behind->before = free_[list];
  has_free_.set(list);
  LinesAtEnd(block, lines) = lines;
  const size_t first = chunk.LineOf(block);
  chunk.is_edge[first] = chunk.is_edge[first + lines - 1] = true;
  // The address sanitizer reports a use of what was freed.
  ASAN_POISON_MEMORY_REGION(block + sizeof(FreeBlock),
                            lines * kLineBytes - sizeof(FreeBlock) - sizeof(size_t));
}

void NodeArena::Unlink(Chunk& chunk, FreeBlock* block) {
  const size_t lines = block->lines;
  if (block->behind != nullptr) block->behind->before = block->before;
  if (block->before != nullptr) {
    block->before->behind = block->behind;
  } else {
    const size_t list = ListOf(lines);
    free_[list] = block->behind;
    if (block->behind == nullptr) has_free_.reset(list);
  }
  auto* const start = reinterpret_cast<std::byte*>(block);
  const size_t first = chunk.LineOf(start);
  chunk.is_edge[first] = chunk.is_edge[first + lines - 1] = false;
  ASAN_UNPOISON_MEMORY_REGION(start, lines * kLineBytes);
}

void NodeArena::Join(Chunk& chunk, std::byte* block, size_t lines) {
  const size_t first = chunk.LineOf(block);
  const size_t end = first + lines;
  // What lies beside an allocated block and is an edge is the edge towards it.
  if (end != chunk.is_edge.size() && chunk.is_edge[end]) {
    auto* const right = reinterpret_cast<FreeBlock*>(block + lines * kLineBytes);
    lines += right->lines;
    Unlink(chunk, right);
  }
  if (first != 0 && chunk.is_edge[first - 1]) {
    const size_t more = LinesAtEnd(block, 0);
    block -= more * kLineBytes;
    lines += more;
    Unlink(chunk, reinterpret_cast<FreeBlock*>(block));
  }
  Push(chunk, block, lines);
}

void* NodeArena::TakeFree(size_t lines) {
  for (size_t list = ListOf(lines); list < kLists; ++list) {
    if (!has_free_[list]) continue;
    FreeBlock* const block = free_[list];
    auto* const start = reinterpret_cast<std::byte*>(block);
    Chunk& chunk = ChunkOf(start);
    const size_t rest = block->lines - lines;
    Unlink(chunk, block);
    if (rest != 0) Push(chunk, start + lines * kLineBytes, rest);
    return start;
  }
  return nullptr;
}

void NodeArena::AddChunk(size_t least_bytes) {
  // All that may throw comes first.
  Chunk chunk = MakeChunk(std::max(chunk_bytes_, least_bytes));
  chunks_.reserve(chunks_.size() + 1);
  if (left_ != 0) Join(ChunkOf(next_), next_, left_ / kLineBytes);
  next_ = chunk.start;
  left_ = chunk.bytes;
  mapped_bytes_ += chunk.bytes;
  if (chunk.small) {
    chunk_bytes_ = chunk_bytes_ * 2 < kHugePageBytes ? chunk_bytes_ * 2 : kLastChunkBytes;
  }
  const auto place = std::ranges::upper_bound(chunks_, chunk.start, {}, &Chunk::start);
  chunks_.insert(place, std::move(chunk));
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
  auto* const start = static_cast<std::byte*>(block);
  Join(ChunkOf(start), start, LinesFor(Rounded(bytes) / kLineBytes));
}

}  // namespace gossamer
