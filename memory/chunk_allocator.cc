#include "memory/chunk_allocator.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace gossamer {
namespace {

uint64_t RoundDown(uint64_t value, uint64_t multiple) { return value / multiple * multiple; }

}  // namespace

ChunkAllocator::ChunkAllocator(uint64_t heap_offset, uint64_t region_bytes, uint64_t chunk_bytes)
    : heap_offset_(heap_offset),
      heap_bytes_(region_bytes < heap_offset ? 0 : RoundDown(region_bytes - heap_offset, kGrain)),
      chunk_bytes_(chunk_bytes),
      free_bytes_(heap_bytes_),
      chunk_is_free_(heap_bytes_ / chunk_bytes, true) {
  const uint64_t rest = heap_bytes_ % chunk_bytes_;
  if (rest != 0) rests_.emplace(ChunkOffset(chunk_is_free_.size()), rest);
}

Result<ChunkAllocator::Extent> ChunkAllocator::Allocate(uint64_t bytes, Lease owner,
                                                        control::ExtentKind kind) {
  if (bytes == 0) return MakeError(Code::kInvalidArgument, "0 bytes of memory were asked for");
  Extent extent{0, 0, owner, kind};
  const auto rest = std::find_if(rests_.begin(), rests_.end(),
                                 [bytes](const auto& free) { return free.second >= bytes; });
  if (rest != rests_.end()) {
    extent.offset = rest->first;
    extent.bytes = rest->second;
    rests_.erase(rest);
  } else {
    if (bytes > free_bytes_) return NoMemory(bytes);
    const uint64_t count = (bytes - 1) / chunk_bytes_ + 1;
    const uint64_t first = FindChunks(count);
    if (first == kNoChunk) return NoMemory(bytes);
    for (uint64_t chunk = first; chunk < first + count; ++chunk) chunk_is_free_[chunk] = false;
    extent.offset = ChunkOffset(first);
    extent.bytes = count * chunk_bytes_;
  }
  free_bytes_ -= extent.bytes;
  BytesOf(kind) += extent.bytes;
  extents_.emplace(extent.offset, extent);
  while (first_free_ < chunk_is_free_.size() && !chunk_is_free_[first_free_]) ++first_free_;
  return extent;
}

Status ChunkAllocator::Release(uint64_t offset, uint64_t bytes, Lease owner) {
  const auto refuse = [&](const char* why) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("cannot take back {} bytes at offset {}: {}", bytes, offset, why));
  };
  if (bytes == 0 || offset % kGrain != 0 || bytes % kGrain != 0)
    return refuse("not a multiple of 256");
  const auto after = extents_.upper_bound(offset);
  if (after == extents_.begin()) return refuse("not handed out");
  Extent& extent = std::prev(after)->second;
  const uint64_t end = extent.offset + extent.bytes;
  if (offset >= end) return refuse("not handed out");
  if (extent.owner != owner) return refuse("it belongs to another compute server");
  if (bytes != end - offset) return refuse("not the end of an extent");
  extent.bytes -= bytes;
  BytesOf(extent.kind) -= bytes;
  if (extent.bytes == 0) extents_.erase(extent.offset);
  FreeRange(offset, bytes);
  return Ok();
}

// First fit of `count` adjacent free chunks.
uint64_t ChunkAllocator::FindChunks(uint64_t count) const {
  uint64_t run = 0;
  for (uint64_t chunk = first_free_; chunk < chunk_is_free_.size(); ++chunk) {
    run = chunk_is_free_[chunk] ? run + 1 : 0;
    if (run == count) return chunk + 1 - count;
  }
  return kNoChunk;
}

void ChunkAllocator::FreeRange(uint64_t offset, uint64_t bytes) {
  free_bytes_ += bytes;
  for (const uint64_t end = offset + bytes; offset < end;) {
    const uint64_t chunk = (offset - heap_offset_) / chunk_bytes_;
    const uint64_t part = std::min(end, ChunkEnd(chunk)) - offset;
    FreeWithinChunk(chunk, offset, part);
    offset += part;
  }
}

// Merges the range with adjacent rests in its chunk.
void ChunkAllocator::FreeWithinChunk(uint64_t chunk, uint64_t offset, uint64_t bytes) {
  const auto next = rests_.lower_bound(offset);
  if (next != rests_.end() && next->first == offset + bytes && next->first < ChunkEnd(chunk)) {
    bytes += next->second;
    rests_.erase(next);
  }
  const auto behind = rests_.lower_bound(offset);
  if (behind != rests_.begin()) {
    const auto previous = std::prev(behind);
    if (previous->first + previous->second == offset && offset != ChunkOffset(chunk)) {
      offset = previous->first;
      bytes += previous->second;
      rests_.erase(previous);
    }
  }
  if (bytes == chunk_bytes_) {
    chunk_is_free_[chunk] = true;
    first_free_ = std::min(first_free_, chunk);
  } else {
    rests_.emplace(offset, bytes);
  }
}

uint64_t ChunkAllocator::ChunkEnd(uint64_t chunk) const {
  return std::min(ChunkOffset(chunk) + chunk_bytes_, heap_offset_ + heap_bytes_);
}

Error ChunkAllocator::NoMemory(uint64_t bytes) const {
  const auto free_chunks = std::count(chunk_is_free_.begin(), chunk_is_free_.end(), true);
  return MakeError(Code::kExhausted,
                   fmt::format("{} bytes asked for; {} of {} chunks of {} bytes and {} smaller "
                               "rests are free, {} of {} bytes in all",
                               bytes, free_chunks, chunk_is_free_.size(), chunk_bytes_,
                               rests_.size(), free_bytes_, heap_bytes_));
}

}  // namespace gossamer
