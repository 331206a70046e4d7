// PlainGet: the plain case of a get: one READ of one leaf answers it.
//
// A key is not plain if its leaf is not cached, its group is torn or of another leaf, it may be in
// an overflow group that no hint announced, its value is in a block, or a verb failed.
//
// Thread-safety: none; it belongs to the get's coroutine. Cost: no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "compute/node/unit_buffers.h"
#include "compute/tree/tree_context.h"
#include "proto/group.h"

namespace gossamer {

// Corrects the hint of the leaf at `spot` by what a get of `key` has read: its home group, number `home_number`, and
// perhaps the overflow group. All are accepted, and of one version.
void LearnHint(TreeContext& context, KeyView key, const NodeCache::LeafSpot& spot,
               uint32_t home_number, const GroupView& home,
               const std::optional<GroupView>& overflow);

// The entry of `key`, whose hash is `hash`, in `unit`. If it is that of a long key, its block tells whether the key is this one.
inline std::optional<Entry> FindEntry(const GroupView& unit, KeyView key, uint64_t hash,
                                      const LeafGeometry& geometry) {
  std::optional<Entry> entry = unit.Find(key);
  if (!entry && key.size() > geometry.max_suffix_bytes()) {
    entry = unit.FindLong(key, hash, [](const Entry&) { return true; });
  }
  return entry;
}

class PlainGet {
 public:
  enum class State : uint8_t { kNotPlain, kAbsent, kFound };
  struct Answer {
    State state = State::kNotPlain;
    std::string_view value;  // in the buffers that the groups were read to
  };
  // The groups are read to places as of UnitBuffers, without a trailer.
  static constexpr size_t kBufferBytes = UnitBuffers::kTrailer;

  // Aims at `key` in the leaf of `spot`. Returns whether it may be plain.
  bool Prepare(TreeContext& context, KeyView key, const NodeCache::LeafSpot& spot);
  RemotePtr leaf() const { return spot_.leaf; }
  uint32_t home() const { return home_; }
  bool reads_overflow() const { return reads_overflow_; }
  static constexpr uint32_t kMaxReads = 2;
  // Adds the READs, kMaxReads at most, to `batch`, which is for the leaf's server. They go to `into`.
  void AddReads(const LeafGeometry& geometry, LocalAddress into, Batch& batch);

  // Once the batch has ended:
  bool is_read() const { return reads_->status == VerbStatus::kSuccess; }
  std::span<std::byte> home_unit(const LeafGeometry& geometry) const {
    return {bytes_ + UnitBuffers::kHome, geometry.unit_bytes()};
  }
  // `home`: home_unit(), if it was accepted (rule R1) as that of a leaf with `key` in its range. (If the key is not in it
  // any more, the prefix may not be the key's. Then the unit is rejected, and the key is not plain.)
  // Corrects the leaf's hint. Requires: is_read().
  Answer Judge(TreeContext& context, KeyView key, const std::optional<GroupView>& home) const;

 private:
  NodeCache::LeafSpot spot_;
  const Verb* reads_ = nullptr;  // of the home group; that of the overflow group follows it
  std::byte* bytes_ = nullptr;
  uint64_t hash_ = 0;
  uint32_t home_ = 0;
  bool reads_overflow_ = false;
};

}  // namespace gossamer
