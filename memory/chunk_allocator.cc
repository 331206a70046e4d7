#include "memory/chunk_allocator.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace gossamer {
namespace {

uint64_t RoundDown(uint64_t value, uint64_t multiple) { return value / multiple * multiple; }
std::pair<uint16_t, uint32_t> KeyOf(Lease lease) {
  return {static_cast<uint16_t>(lease.compute), lease.incarnation};
}
uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return RoundDown(value + multiple - 1, multiple);
}

}  // namespace

ChunkAllocator::ChunkAllocator(uint64_t heap_offset, uint64_t region_bytes, uint64_t chunk_bytes)
    : heap_offset_(heap_offset),
      heap_bytes_(
          region_bytes < heap_offset ? 0 : RoundDown(region_bytes - heap_offset, kNodeAlignment)),
      chunk_bytes_(chunk_bytes),
      free_bytes_(heap_bytes_),
      chunk_is_free_(heap_bytes_ / chunk_bytes, true),
      chunk_generation_(chunk_is_free_.size(), 0) {
  const uint64_t rest = heap_bytes_ % chunk_bytes_;
  if (rest != 0) AddRest(ChunkOffset(chunk_is_free_.size()), {rest, 0});
}

Result<ChunkAllocator::Extent> ChunkAllocator::Allocate(uint64_t bytes, Lease owner,
                                                        control::ExtentKind kind) {
  if (bytes == 0) return MakeError(Code::kInvalidArgument, "0 bytes of memory were asked for");
  const uint64_t alignment =
      kind == control::ExtentKind::kNodes ? RoundUp(bytes, kNodeAlignment) : kGrain;
  if (const auto waiting = TakeWaiting(bytes, alignment, owner, kind)) return *waiting;
  if (bytes > free_bytes_) return NoMemory(bytes);
  const uint64_t enough = std::max(bytes, chunk_bytes_ / kLargeRests);
  const auto rest = FindRest(bytes, alignment, enough);
  const bool is_large = rest != rests_.end() && rest->second.bytes >= enough;
  const uint64_t count = (bytes - 1) / chunk_bytes_ + 1;
  const uint64_t first = is_large ? kNoChunk : FindChunks(count);
  if (rest == rests_.end() && first == kNoChunk) return NoMemory(bytes);
  Extent extent = first == kNoChunk ? TakeRest(rest, alignment) : TakeChunks(first, count);
  extent.owner = owner;
  extent.kind = kind;
  free_bytes_ -= extent.bytes;
  BytesOf(kind) += extent.bytes;
  extents_.emplace(extent.offset, extent);
  return extent;
}

ChunkAllocator::Rests::iterator ChunkAllocator::FindRest(uint64_t bytes, uint64_t alignment,
                                                         uint64_t enough) {
  const auto fits = [&](const auto& sized) {
    const auto [size, offset] = sized;
    return RoundUp(offset, alignment) - offset + bytes <= size;
  };
  const auto large = rests_by_size_.lower_bound({enough, 0});
  if (const auto found = std::find_if(large, rests_by_size_.end(), fits);
      found != rests_by_size_.end()) {
    return rests_.find(found->second);
  }
  for (auto small = large; small != rests_by_size_.begin();) {
    --small;
    if (small->first < bytes) break;
    if (fits(*small)) return rests_.find(small->second);
  }
  return rests_.end();
}

ChunkAllocator::Extent ChunkAllocator::TakeRest(Rests::iterator rest, uint64_t alignment) {
  const uint64_t offset = rest->first;
  const Rest taken = rest->second;
  EraseRest(rest);
  const uint64_t aligned = RoundUp(offset, alignment);
  if (aligned != offset) AddRest(offset, {aligned - offset, taken.generation});
  return {aligned, offset + taken.bytes - aligned, {}, {}, taken.generation};
}

ChunkAllocator::Extent ChunkAllocator::TakeChunks(uint64_t first, uint64_t count) {
  Extent extent{ChunkOffset(first), count * chunk_bytes_, {}, {}, 0};
  for (uint64_t chunk = first; chunk < first + count; ++chunk) {
    chunk_is_free_[chunk] = false;
    extent.generation = std::max(extent.generation, chunk_generation_[chunk]);
  }
  while (first_free_ < chunk_is_free_.size() && !chunk_is_free_[first_free_]) ++first_free_;
  return extent;
}

Status ChunkAllocator::Check(const control::Range& range, Lease by) const {
  const auto refuse = [&](const std::string& why) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format("cannot take back {} bytes at offset {}: {}", range.bytes, range.offset, why));
  };
  if (range.bytes == 0 || range.offset % kGrain != 0 || range.bytes % kGrain != 0) {
    return refuse(fmt::format("not a multiple of {}", kGrain));
  }
  if (range.generation >= kGenerations) return refuse("it has a generation that does not exist");
  const uint64_t end = range.offset + range.bytes;
  // The extents in the range, the first one of which may begin before it.
  auto extent = extents_.upper_bound(range.offset);
  if (extent == extents_.begin() || end < range.offset) return refuse("not handed out");
  --extent;
  for (uint64_t at = range.offset; at < end; ++extent) {
    const bool is_out = extent != extents_.end() && extent->first <= at &&
                        at < extent->first + extent->second.bytes && !extent->second.is_waiting;
    if (!is_out) return refuse("not handed out");
    if (range.was_used == 0 && extent->second.owner != by) {
      return refuse("never used, it belongs to another compute server");
    }
    at = extent->first + extent->second.bytes;
  }
  return Ok();
}

ChunkAllocator::Extents::iterator ChunkAllocator::Free(Extents::iterator extent,
                                                       uint8_t generation) {
  const Extent freed = extent->second;
  BytesOf(freed.kind) -= freed.bytes;
  FreeRange(freed.offset, freed.bytes, generation);
  return extents_.erase(extent);
}

ChunkAllocator::Extents::iterator ChunkAllocator::LetWait(Extents::iterator extent,
                                                          uint8_t generation) {
  extent->second.is_waiting = true;
  extent->second.generation = generation;
  waiting_[KeyOf(extent->second.owner)].emplace(extent->second.bytes, extent->first);
  return std::next(extent);
}

void ChunkAllocator::Ended(Lease owner) {
  const auto waiting = waiting_.find(KeyOf(owner));
  if (waiting == waiting_.end()) return;
  for (const auto& [bytes, offset] : waiting->second) {
    const auto extent = extents_.find(offset);
    Free(extent, extent->second.generation);
  }
  waiting_.erase(waiting);
}

std::optional<ChunkAllocator::Extent> ChunkAllocator::TakeWaiting(uint64_t bytes,
                                                                  uint64_t alignment, Lease owner,
                                                                  control::ExtentKind kind) {
  const auto waiting = waiting_.find(KeyOf(owner));
  if (waiting == waiting_.end()) return std::nullopt;
  const auto found =
      std::find_if(waiting->second.lower_bound({bytes, 0}), waiting->second.end(),
                   [alignment](const auto& sized) { return sized.second % alignment == 0; });
  if (found == waiting->second.end()) return std::nullopt;
  Extent& extent = extents_.at(found->second);
  waiting->second.erase(found);
  BytesOf(extent.kind) -= extent.bytes;
  BytesOf(kind) += extent.bytes;
  extent.kind = kind;
  extent.is_waiting = false;
  return extent;
}

void ChunkAllocator::SplitExtentAt(uint64_t offset) {
  const auto behind = extents_.upper_bound(offset);
  if (behind == extents_.begin()) return;
  Extent& extent = std::prev(behind)->second;
  const uint64_t end = extent.offset + extent.bytes;
  if (extent.offset == offset || end <= offset) return;
  Extent right = extent;
  right.offset = offset;
  right.bytes = end - offset;
  extent.bytes = offset - extent.offset;
  extents_.emplace(offset, right);
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

ChunkAllocator::Rests::iterator ChunkAllocator::AddRest(uint64_t offset, const Rest& rest) {
  rests_by_size_.emplace(rest.bytes, offset);
  return rests_.emplace(offset, rest).first;
}

void ChunkAllocator::EraseRest(Rests::iterator rest) {
  rests_by_size_.erase({rest->second.bytes, rest->first});
  rests_.erase(rest);
}

void ChunkAllocator::FreeRange(uint64_t offset, uint64_t bytes, uint8_t generation) {
  free_bytes_ += bytes;
  for (const uint64_t end = offset + bytes; offset < end;) {
    const uint64_t chunk = (offset - heap_offset_) / chunk_bytes_;
    const uint64_t part = std::min(end, ChunkEnd(chunk)) - offset;
    FreeWithinChunk(chunk, offset, {part, generation});
    offset += part;
  }
}

// Merges the range with adjacent rests in its chunk. The whole gets the greatest of their generations.
void ChunkAllocator::FreeWithinChunk(uint64_t chunk, uint64_t offset, Rest rest) {
  const auto next = rests_.lower_bound(offset);
  if (next != rests_.end() && next->first == offset + rest.bytes && next->first < ChunkEnd(chunk)) {
    rest.bytes += next->second.bytes;
    rest.generation = std::max(rest.generation, next->second.generation);
    EraseRest(next);
  }
  const auto behind = rests_.lower_bound(offset);
  if (behind != rests_.begin()) {
    const auto previous = std::prev(behind);
    if (previous->first + previous->second.bytes == offset && offset != ChunkOffset(chunk)) {
      offset = previous->first;
      rest.bytes += previous->second.bytes;
      rest.generation = std::max(rest.generation, previous->second.generation);
      EraseRest(previous);
    }
  }
  if (rest.bytes == chunk_bytes_) {
    chunk_is_free_[chunk] = true;
    chunk_generation_[chunk] = rest.generation;
    first_free_ = std::min(first_free_, chunk);
  } else {
    AddRest(offset, rest);
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
