// ReferenceCache: where the values are that are in blocks, by their keys' hashes.
//
// A get READs the block that is known here along with its group, and saves the round trip of a get
// that learns from the group where the block is. It takes the value only if the group refers to
// that very block (rule R10). So a reference may be outdated, or another key's of the same hash: it
// then costs the bytes of a READ. AlongTuner stops that where it happens often.
//
// A table of lines, each with the references of some hashes. Where a line is full, a new reference
// takes the place of any other. Addresses are reserved at the first Set, and memory is used as
// lines are.
//
// Thread-safety: thread-safe; lock-free but for the first Set. Parts of two references may be found
// as one, which is an outdated one.
// Cost: one cache line for each call.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "common/huge_pages.h"
#include "proto/value_block.h"

namespace gossamer {

class ReferenceCache {
 public:
  // Longer contents are read once it is certain where they are: READ in vain, they would take
  // longer than a round trip.
  static constexpr uint32_t kMaxLength = 4096;

  // Takes at most so much memory; 0: there is no reference.
  explicit ReferenceCache(size_t most_bytes) : line_count_(most_bytes / sizeof(Line)) {}
  ReferenceCache(const ReferenceCache&) = delete;
  ReferenceCache& operator=(const ReferenceCache&) = delete;

  // Whether there may be any.
  bool is_used() const { return lines_.load(std::memory_order_acquire) != nullptr; }
  // Of all that follows: for KeyHash(key). Prefetch may precede the others.
  void Prefetch(uint64_t hash) const {
    const Line* const lines = lines_.load(std::memory_order_acquire);
    if (lines != nullptr) __builtin_prefetch(&lines[LineOf(hash)]);
  }
  // The reference, without the checksum.
  std::optional<BlockRef> Find(uint64_t hash) const;
  // Remembers it, unless its content is longer than kMaxLength.
  void Set(uint64_t hash, const BlockRef& block);
  // Likewise, if there is a reference for the key.
  void Update(uint64_t hash, const BlockRef& block);
  void Erase(uint64_t hash);

 private:
  // Of what the hash says beside the line, and of the length.
  static constexpr uint32_t kLengthBits = 13;
  static_assert(kMaxLength < 1u << kLengthBits);
  static constexpr size_t kWays = 5;
  static constexpr size_t kNone = kWays;

  struct alignas(64) Line {
    std::array<std::atomic<uint64_t>, kWays> blocks;  // 0: none
    std::array<std::atomic<uint32_t>, kWays> tags;    // and lengths
    std::atomic<uint32_t> next;  // the place that a new reference takes, modulo kWays
  };
  static_assert(sizeof(Line) == 64);

  size_t LineOf(uint64_t hash) const {
    return static_cast<size_t>((hash >> 32) * line_count_ >> 32);
  }
  static uint32_t TagOf(uint64_t hash) { return static_cast<uint32_t>(hash) << kLengthBits; }
  static uint32_t LengthIn(uint32_t tag) { return tag & ((1u << kLengthBits) - 1); }
  // The place of the hash's reference in the line, or kNone.
  static size_t PlaceIn(const Line& line, uint64_t hash);
  static void Store(Line& line, size_t place, uint64_t hash, const BlockRef& block);
  // Null if there is no memory.
  Line* Reserve();

  const size_t line_count_;
  std::atomic<Line*> lines_ = nullptr;
  std::atomic<bool> has_no_memory_ = false;
  std::mutex reserving_;
  MemoryMapping memory_;
};

}  // namespace gossamer
