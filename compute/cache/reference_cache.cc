#include "compute/cache/reference_cache.h"

#include <bit>
#include <utility>

namespace gossamer {

size_t ReferenceCache::PlaceIn(const Line& line, uint64_t hash) {
  // Without a branch for each: which place it is cannot be predicted.
  uint32_t found = 1u << kNone;
  for (size_t place = 0; place < kWays; ++place) {
    const uint32_t differs = line.tags[place].load(std::memory_order_relaxed) ^ TagOf(hash);
    const bool is_there = line.blocks[place].load(std::memory_order_relaxed) != 0;
    found |= static_cast<uint32_t>((differs >> kLengthBits == 0) & is_there) << place;
  }
  return static_cast<size_t>(std::countr_zero(found));
}

std::optional<BlockRef> ReferenceCache::Find(uint64_t hash) const {
  const Line* const lines = lines_.load(std::memory_order_acquire);
  if (lines == nullptr) return std::nullopt;
  const Line& line = lines[LineOf(hash)];
  const size_t place = PlaceIn(line, hash);
  if (place == kNone) return std::nullopt;
  const uint64_t block = line.blocks[place].load(std::memory_order_relaxed);
  const uint32_t tag = line.tags[place].load(std::memory_order_relaxed);
  // Both may have changed since.
  if (block == 0) return std::nullopt;
  return BlockRef{block, LengthIn(tag), 0};
}

void ReferenceCache::Store(Line& line, size_t place, uint64_t hash, const BlockRef& block) {
  line.tags[place].store(TagOf(hash) | block.length, std::memory_order_relaxed);
  line.blocks[place].store(block.pointer, std::memory_order_relaxed);
}

void ReferenceCache::Set(uint64_t hash, const BlockRef& block) {
  if (block.length > kMaxLength) return Erase(hash);
  Line* lines = lines_.load(std::memory_order_acquire);
  if (lines == nullptr) lines = Reserve();
  if (lines == nullptr) return;
  Line& line = lines[LineOf(hash)];
  size_t place = PlaceIn(line, hash);
  for (size_t i = 0; i < kWays && place == kNone; ++i) {
    if (line.blocks[i].load(std::memory_order_relaxed) == 0) place = i;
  }
  if (place == kNone) {
    const uint32_t next = line.next.load(std::memory_order_relaxed);
    line.next.store(next + 1, std::memory_order_relaxed);
    place = next % kWays;
  }
  Store(line, place, hash, block);
}

void ReferenceCache::Update(uint64_t hash, const BlockRef& block) {
  Line* const lines = lines_.load(std::memory_order_acquire);
  if (lines == nullptr) return;
  Line& line = lines[LineOf(hash)];
  const size_t place = PlaceIn(line, hash);
  if (place == kNone) return;
  if (block.length > kMaxLength) return Erase(hash);
  Store(line, place, hash, block);
}

void ReferenceCache::Erase(uint64_t hash) {
  Line* const lines = lines_.load(std::memory_order_acquire);
  if (lines == nullptr) return;
  Line& line = lines[LineOf(hash)];
  const size_t place = PlaceIn(line, hash);
  if (place != kNone) line.blocks[place].store(0, std::memory_order_relaxed);
}

ReferenceCache::Line* ReferenceCache::Reserve() {
  if (line_count_ == 0 || has_no_memory_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard guard(reserving_);
  if (Line* const lines = lines_.load(std::memory_order_relaxed)) return lines;
  Result<MemoryMapping> memory = MapTransparentPages(line_count_ * sizeof(Line));
  if (!memory) {
    has_no_memory_.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  memory_ = std::move(memory.value());
  // Zeroed: all are empty.
  auto* const lines = reinterpret_cast<Line*>(memory_.data());
  lines_.store(lines, std::memory_order_release);
  return lines;
}

}  // namespace gossamer
