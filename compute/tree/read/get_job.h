// GetJob: one get, in steps, so that many of them can share their round trips.
//
//   Aim       at the leaf where the cache has the key
//   AddReads  of the key's home group, and of the overflow group if the leaf's hint says that the
//             key may be there
//   Judge     what the READs have brought
//
// The plain case ends with Judge, without a path and without waiting for anything else.
// Getter::Finish does the rest.
//
// Thread-safety: none; it belongs to the get's coroutine. Cost: no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "compute/leaf/unit_buffers.h"
#include "compute/tree/tree_context.h"
#include "proto/group.h"

namespace gossamer {

class GetJob {
 public:
  enum class Verdict : uint8_t {
    kFound,
    kAbsent,
    kBlock,     // the entry refers to a block, which has the value, and a long key's bytes
    kOverflow,  // the key may be in the overflow group, which was not read
    kTorn,  // a group is torn or not this leaf's, or the two are not of one version (rules R1, R2)
    kFrozen,      // its left neighbour takes the entries over, or has done so (rule R8)
    kRightOfLeaf  // the leaf has split: the key lies right of it
  };
  struct Answer {
    Verdict verdict = Verdict::kTorn;
    Entry::Kind kind = Entry::Kind::kInline;
    std::string_view stored =
        {};  // of kFound and kBlock; in the buffers that the groups were read to

    // Whether the get has ended.
    bool is_plain() const { return verdict == Verdict::kFound || verdict == Verdict::kAbsent; }
  };
  // The groups are read to places as of UnitBuffers, without a trailer.
  static constexpr size_t kBufferBytes = UnitBuffers::kTrailer;
  static constexpr uint32_t kMaxReads = 2;

  // Aims at `key` in the leaf of `spot`, as the cache has it. Returns false if the leaf is not
  // cached or cannot be reached now, or the store holds no such key.
  bool Aim(TreeContext& context, KeyView key, const NodeCache::LeafSpot& spot);
  // Aims at a leaf that can be reached. `has_hint`: the cache has one for the leaf; without, both
  // groups are read.
  void Aim(const LeafGeometry& geometry, KeyView key, const NodeCache::LeafSpot& spot,
           bool has_hint);
  RemotePtr leaf() const { return spot_.leaf; }
  uint32_t home() const { return home_; }

  // Adds the READs, kMaxReads at most, to `batch`, which is for the leaf's server. They go to
  // `into`. The batch lives until Judge.
  void AddReads(const LeafGeometry& geometry, LocalAddress into, Batch& batch);
  // After kOverflow: adds the READ of the overflow group. Judge is called again behind it.
  void AddOverflowRead(const LeafGeometry& geometry, LocalAddress into, Batch& batch);
  // Whether the home group was read. Requires (unchecked): the batch has ended.
  bool is_read() const { return home_read_->status == VerbStatus::kSuccess; }

  // Judges what was read. Corrects the leaf's hint. `within` is a key in the leaf's range, as
  // GroupView::Parse wants it: its low fence, or the key itself. (If the key is not in the range,
  // its prefix may not be the leaf's: the group looks torn.) `left`, unless null, is the low fence
  // of the leaf from which this get came over its sibling pointer: only then a frozen leaf counts.
  // Requires: is_read().
  Answer Judge(TreeContext& context, KeyView key, KeyView within, const Key* left = nullptr) const;

 private:
  Verb ReadVerb(const LeafGeometry& geometry, uint32_t unit, LocalAddress into) const {
    return Verb::Read(spot_.leaf.offset() + geometry.unit_offset(unit), geometry.unit_bytes(),
                      into);
  }
  std::optional<GroupView> Parse(const LeafGeometry& geometry, size_t at, uint32_t unit,
                                 KeyView key, KeyView within) const;

  NodeCache::LeafSpot spot_;
  const Verb* home_read_ = nullptr;
  const Verb* overflow_read_ = nullptr;  // null: the overflow group was not read
  std::byte* bytes_ = nullptr;
  uint64_t hash_ = 0;
  uint32_t home_ = 0;
  bool wants_overflow_ = false;
};

}  // namespace gossamer
