#include "memory/chunk_allocator.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "memory/rules.h"

namespace gossamer {
namespace {

uint64_t RoundDown(uint64_t value, uint64_t multiple) { return value / multiple * multiple; }
uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return RoundDown(value + multiple - 1, multiple);
}

std::pair<uint16_t, uint32_t> KeyOf(Lease lease) {
  return {static_cast<uint16_t>(lease.compute), lease.incarnation};
}

}  // namespace

ChunkAllocator::ChunkAllocator(uint64_t heap_offset, uint64_t region_bytes, uint64_t chunk_bytes)
    : heap_offset_(heap_offset),
      heap_bytes_(
          region_bytes < heap_offset ? 0 : RoundDown(region_bytes - heap_offset, kNodeAlignment)),
      chunk_bytes_(chunk_bytes),
      free_bytes_(heap_bytes_),
      chunk_is_free_(heap_bytes_ / chunk_bytes, true),
      chunk_next_(chunk_is_free_.size()) {
  const uint64_t rest = heap_bytes_ % chunk_bytes_;
  if (rest != 0) AddRest(ChunkOffset(chunk_is_free_.size()), {rest, {}});
}

Result<ChunkAllocator::Extent> ChunkAllocator::Allocate(uint64_t bytes, Owner owner,
                                                        control::ExtentKind kind) {
  if (bytes == 0) return MakeError(Code::kInvalidArgument, "0 bytes of memory were asked for");
  if (bytes > heap_bytes_) return NoMemory(bytes);
  const uint64_t alignment =
      kind == control::ExtentKind::kNodes ? RoundUp(bytes, kNodeAlignment) : kGrain;
  if (const auto waiting = TakeWaiting(bytes, alignment, owner.lease, kind)) return *waiting;
  const uint64_t enough = std::max(bytes, chunk_bytes_ / kLargeRests);
  const auto rest = FindRest(bytes, alignment, enough, kind);
  const bool is_large = rest != rests_.end() && rest->second.bytes >= enough;
  const uint64_t count = (bytes - 1) / chunk_bytes_ + 1;
  const uint64_t first = is_large ? kNoChunk : FindChunks(count, kind);
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
                                                         uint64_t enough,
                                                         control::ExtentKind kind) {
  const auto fits = [&](const auto& sized) {
    const auto [size, offset] = sized;
    return RoundUp(offset, alignment) - offset + bytes <= size &&
           rests_.at(offset).next.Allow(kind);
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
  if (aligned != offset) AddRest(offset, {aligned - offset, taken.next});
  return {aligned, offset + taken.bytes - aligned, {}, {}, taken.next};
}

ChunkAllocator::Extent ChunkAllocator::TakeChunks(uint64_t first, uint64_t count) {
  Extent extent{ChunkOffset(first), count * chunk_bytes_, {}, {}, {}};
  for (uint64_t chunk = first; chunk < first + count; ++chunk) {
    chunk_is_free_[chunk] = false;
    extent.next = extent.next.With(chunk_next_[chunk]);
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
  const uint64_t end = range.offset + range.bytes;
  // The extents in the range, the first one of which may begin before it.
  auto extent = extents_.upper_bound(range.offset);
  if (extent == extents_.begin() || end < range.offset) return refuse("not handed out");
  --extent;
  for (uint64_t at = range.offset; at < end; ++extent) {
    const bool is_out = extent != extents_.end() && extent->first <= at &&
                        at < extent->first + extent->second.bytes;
    if (!is_out) return refuse("not handed out");
    const std::string why = WhyNot(range, extent->second, by);
    if (!why.empty()) return refuse(why);
    at = extent->first + extent->second.bytes;
  }
  return Ok();
}

std::string ChunkAllocator::WhyNot(const control::Range& range, const Extent& extent, Lease by) {
  const Lease owner = extent.owner.lease;
  switch (range.past) {
    case control::Past::kUnused:
      if (owner != by) return "never used, it belongs to another compute server";
      [[fallthrough]];
    case control::Past::kUsed:
      if (extent.is_waiting) return "not handed out";
      if (extent.kind == control::ExtentKind::kBlocks &&
          range.generation >= Generations::kOfBlocks) {
        return "blocks have no such generation";
      }
      return {};
    case control::Past::kOrphaned:
      return owner == OwnerIn(range) ? "" : "it belongs to another lease";
  }
  return "of no known past";
}

Error ChunkAllocator::NotOrphaned(const control::Range& range) {
  return MakeError(
      Code::kInvalidArgument,
      fmt::format("cannot take back {} bytes at offset {}: the owner's lease is in force",
                  range.bytes, range.offset));
}

void ChunkAllocator::SetNext(Extent& extent, const control::Range& range, uint32_t epoch) {
  if (!extent.next.AllowNodes()) worn_bytes_ -= std::min(worn_bytes_, extent.bytes);
  // No pointer to orphaned memory is left.
  extent.next = range.past == control::Past::kOrphaned
                    ? Generations{}
                    : extent.next.After(rules::LastUse(range), extent.kind, epoch);
  extent.next.of_nodes = rules::NextOfNodes(extent.next.of_nodes, Generations::kOfNodes);
  if (!extent.next.AllowNodes()) worn_bytes_ += extent.bytes;
}

ChunkAllocator::Extents::iterator ChunkAllocator::Free(Extents::iterator extent) {
  const Extent freed = extent->second;
  BytesOf(freed.kind) -= freed.bytes;
  FreeRange(freed.offset, freed.bytes, freed.next);
  return extents_.erase(extent);
}

ChunkAllocator::Extents::iterator ChunkAllocator::LetWait(Extents::iterator extent) {
  extent->second.is_waiting = true;
  waiting_[KeyOf(extent->second.owner.lease)].emplace(extent->second.bytes, extent->first);
  waiting_bytes_ += extent->second.bytes;
  return std::next(extent);
}

void ChunkAllocator::StopWaiting(Extents::iterator extent) {
  const auto waiting = waiting_.find(KeyOf(extent->second.owner.lease));
  waiting->second.erase({extent->second.bytes, extent->first});
  if (waiting->second.empty()) waiting_.erase(waiting);
  waiting_bytes_ -= extent->second.bytes;
  extent->second.is_waiting = false;
  LeaveOffer(extent->second);
}

const ChunkAllocator::Offer& ChunkAllocator::MakeOffer(Lease owner, size_t most) {
  Offer& offer = offers_[KeyOf(owner)];
  offer = {++last_offer_, {}};
  const auto waiting = waiting_.find(KeyOf(owner));
  if (waiting == waiting_.end()) return offer;
  for (const auto& [bytes, offset] : waiting->second) {
    if (offer.ranges.size() == most) break;
    offer.ranges.push_back({offset, bytes});
  }
  return offer;
}

void ChunkAllocator::LeaveOffer(const Extent& extent) {
  const auto offer = offers_.find(KeyOf(extent.owner.lease));
  if (offer == offers_.end()) return;
  const uint64_t end = extent.offset + extent.bytes;
  std::vector<control::WaitingRange> rest;
  for (const auto& [offset, bytes] : offer->second.ranges) {
    const uint64_t before = std::min(offset + bytes, extent.offset);
    const uint64_t behind = std::max(offset, end);
    if (offset < before) rest.push_back({offset, before - offset});
    if (behind < offset + bytes) rest.push_back({behind, offset + bytes - behind});
  }
  offer->second.ranges = std::move(rest);
}

uint64_t ChunkAllocator::GiveUp(Lease owner, uint32_t offer) {
  const auto made = offers_.find(KeyOf(owner));
  if (made == offers_.end() || made->second.number != offer) return 0;
  uint64_t given_up = 0;
  for (const auto& [offset, bytes] : std::exchange(made->second.ranges, {})) {
    SplitExtentAt(offset);
    SplitExtentAt(offset + bytes);
    for (auto extent = extents_.lower_bound(offset);
         extent != extents_.end() && extent->first < offset + bytes;) {
      const bool waits = extent->second.is_waiting && extent->second.owner.lease == owner;
      if (waits) {
        StopWaiting(extent);
        given_up += extent->second.bytes;
      }
      extent = waits ? Free(extent) : std::next(extent);
    }
  }
  return given_up;
}

void ChunkAllocator::EndEpochsBefore(uint32_t oldest) {
  if (worn_bytes_ == 0) return;
  worn_bytes_ = 0;
  // Returns whether the memory is as new.
  const auto renew = [&](Generations& next, uint64_t bytes) {
    if (next.AllowNodes()) return false;
    const bool is_over = next.worn_in < oldest;
    if (is_over) next.of_nodes = 0;
    if (!is_over) worn_bytes_ += bytes;
    return is_over;
  };
  for (auto& [offset, extent] : extents_) renew(extent.next, extent.bytes);
  for (uint64_t chunk = 0; chunk < chunk_next_.size(); ++chunk) {
    if (chunk_is_free_[chunk]) renew(chunk_next_[chunk], chunk_bytes_);
  }
  std::vector<std::pair<uint64_t, Rest>> renewed;
  for (auto& [offset, rest] : rests_) {
    if (renew(rest.next, rest.bytes)) renewed.emplace_back(offset, rest);
  }
  // They may join their neighbours.
  for (const auto& [offset, rest] : renewed) {
    const auto at = rests_.find(offset);
    if (at == rests_.end()) continue;  // joined already
    const Rest whole = at->second;
    EraseRest(at);
    FreeWithinChunk((offset - heap_offset_) / chunk_bytes_, offset, whole);
  }
}

void ChunkAllocator::Ended(Lease owner) {
  offers_.erase(KeyOf(owner));
  const auto waiting = waiting_.find(KeyOf(owner));
  if (waiting == waiting_.end()) return;
  for (const auto& [bytes, offset] : waiting->second) {
    waiting_bytes_ -= bytes;
    Free(extents_.find(offset));
  }
  waiting_.erase(waiting);
}

std::optional<ChunkAllocator::Extent> ChunkAllocator::TakeWaiting(uint64_t bytes,
                                                                  uint64_t alignment, Lease owner,
                                                                  control::ExtentKind kind) {
  const auto waiting = waiting_.find(KeyOf(owner));
  if (waiting == waiting_.end()) return std::nullopt;
  const auto found = std::find_if(
      waiting->second.lower_bound({bytes, 0}), waiting->second.end(), [&](const auto& sized) {
        const uint64_t offset = sized.second;
        return offset % alignment == 0 && extents_.at(offset).next.Allow(kind);
      });
  if (found == waiting->second.end()) return std::nullopt;
  const auto at = extents_.find(found->second);
  StopWaiting(at);
  Extent& extent = at->second;
  BytesOf(extent.kind) -= extent.bytes;
  BytesOf(kind) += extent.bytes;
  extent.kind = kind;
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
uint64_t ChunkAllocator::FindChunks(uint64_t count, control::ExtentKind kind) const {
  uint64_t run = 0;
  for (uint64_t chunk = first_free_; chunk < chunk_is_free_.size(); ++chunk) {
    run = chunk_is_free_[chunk] && chunk_next_[chunk].Allow(kind) ? run + 1 : 0;
    if (run == count) return chunk + 1 - count;
  }
  return kNoChunk;
}

void ChunkAllocator::AddRest(uint64_t offset, const Rest& rest) {
  rests_by_size_.emplace(rest.bytes, offset);
  rests_.emplace(offset, rest);
}

void ChunkAllocator::EraseRest(Rests::iterator rest) {
  rests_by_size_.erase({rest->second.bytes, rest->first});
  rests_.erase(rest);
}

void ChunkAllocator::FreeRange(uint64_t offset, uint64_t bytes, Generations next) {
  free_bytes_ += bytes;
  for (const uint64_t end = offset + bytes; offset < end;) {
    const uint64_t chunk = (offset - heap_offset_) / chunk_bytes_;
    const uint64_t part = std::min(end, ChunkEnd(chunk)) - offset;
    FreeWithinChunk(chunk, offset, {part, next});
    offset += part;
  }
}

// Merges the range with adjacent rests in its chunk. The whole gets the greatest of their generations.
void ChunkAllocator::FreeWithinChunk(uint64_t chunk, uint64_t offset, Rest rest) {
  const auto next = rests_.lower_bound(offset);
  // Memory whose generations of nodes are used up stays apart: it would take the others' away.
  const auto is_alike = [&rest](const Rest& other) {
    return other.next.AllowNodes() == rest.next.AllowNodes();
  };
  if (next != rests_.end() && next->first == offset + rest.bytes && next->first < ChunkEnd(chunk) &&
      is_alike(next->second)) {
    rest.bytes += next->second.bytes;
    rest.next = rest.next.With(next->second.next);
    EraseRest(next);
  }
  const auto behind = rests_.lower_bound(offset);
  if (behind != rests_.begin()) {
    const auto previous = std::prev(behind);
    if (previous->first + previous->second.bytes == offset && offset != ChunkOffset(chunk) &&
        is_alike(previous->second)) {
      offset = previous->first;
      rest.bytes += previous->second.bytes;
      rest.next = rest.next.With(previous->second.next);
      EraseRest(previous);
    }
  }
  if (rest.bytes == chunk_bytes_) {
    chunk_is_free_[chunk] = true;
    chunk_next_[chunk] = rest.next;
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
