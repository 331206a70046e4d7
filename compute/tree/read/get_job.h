// GetJob: one get, in steps, so that many of them can share their round trips.
//
//   Aim       at the leaf where the cache has the key
//   AddReads  of the key's home group; of the overflow group if the leaf's hint says that the key
//             may be there; after Guess, of the block where the value was the last time
//   Judge     what the READs of the groups have brought
//   TakeGuess the value, if it is in that block
//   TakeBlock the value from a block that was READ behind Judge
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

#include "compute/node/block_guesses.h"
#include "compute/node/block_reads.h"
#include "compute/tree/tree_context.h"
#include "proto/group.h"

namespace gossamer {

// The layout of a get's buffer: each unit that it reads has a place of its own.
struct UnitBuffers {
  static constexpr size_t kHome = 0;
  static constexpr size_t kOverflow = kHome + kUnitSlotBytes;
  static constexpr size_t kTrailer = kOverflow + kUnitSlotBytes;
  static constexpr size_t kBytes = kTrailer + 64;
};
static_assert(UnitBuffers::kBytes <= 512);
static_assert(kTrailerBytes <= 64);

class GetJob {
 public:
  enum class Verdict : uint8_t {
    kFound,
    kAbsent,
    kBlock,     // the entry refers to a block, which has the value, and a long key's bytes
    kExpired,   // the key may have expired: who holds the leaf's lock has to say so (rule X1)
    kOverflow,  // the key may be in the overflow group, which was not read
    kTorn,  // a group is torn or not this leaf's, or the two are not of one version (rules R1, R2)
    kFrozen,      // its left neighbour takes the entries over, or has done so (rule R8)
    kRightOfLeaf  // the leaf has split: the key lies right of it
  };
  struct Answer {
    Verdict verdict = Verdict::kTorn;
    Entry::Kind kind = Entry::Kind::kInline;
    std::string_view stored =
        {};                   // of kFound and kBlock; in the buffers that the groups were read to
    uint64_t expires_at = 0;  // likewise; 0: never
    BlockRef reference{};     // what the leaf has, if `kind` is kBlock

    // Whether the get has ended.
    bool is_plain() const { return verdict == Verdict::kFound || verdict == Verdict::kAbsent; }
    // Of kBlock.
    BlockRef block(KeyView key) const { return Entry{key, stored, kind}.block(); }
  };
  // The groups are read to places as of UnitBuffers, without a trailer.
  static constexpr size_t kBufferBytes = UnitBuffers::kTrailer;
  static constexpr uint32_t kMaxReads = 3;

  // Aims at `key`, of that KeyHash, in the leaf of `spot`, as the cache has it. Returns false if
  // the leaf is not cached or cannot be reached now, or the store holds no such key.
  bool Aim(TreeContext& context, KeyView key, uint64_t hash, const NodeCache::LeafSpot& spot);
  // Aims at a leaf that can be reached. `has_hint`: the cache has one for the leaf; without, both
  // groups are read.
  void Aim(const LeafGeometry& geometry, uint64_t hash, const NodeCache::LeafSpot& spot,
           bool has_hint);
  // After Aim: chooses the block to READ along, if one is known.
  void Guess(TreeContext& context);
  // What the block takes in a buffer that is READ along; 0: none is.
  size_t guess_bytes() const {
    return guess_.is_there() ? BlockReads::BufferBytes(BlockReadBytes(guess_.at.length)) : 0;
  }
  RemotePtr leaf() const { return spot_.leaf; }
  uint32_t home() const { return home_; }

  // Adds the READs, kMaxReads at most, to `batch`, which is for the leaf's server. They go to
  // `into`, and, of the block, to `block_into`; null: it is not read. The batch lives until Judge,
  // or TakeBlock.
  void AddReads(const LeafGeometry& geometry, LocalAddress into, LocalAddress block_into,
                Batch& batch);
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
  // Takes the value from the block that was READ along, if `answer`, of Judge, refers to that. Call
  // it once.
  void TakeGuess(TreeContext& context, KeyView key, Answer& answer) const;
  // The block to which `answer` refers was read: takes the value from `bytes`, if they are that.
  static void TakeBlock(KeyView key, std::span<const std::byte> bytes, Answer& answer);
  uint64_t hash() const { return hash_; }

 private:
  Verb ReadVerb(const LeafGeometry& geometry, uint32_t unit, LocalAddress into) const {
    return Verb::Read(spot_.leaf.offset() + geometry.unit_offset(unit), geometry.unit_bytes(),
                      into);
  }
  static void TakeContent(KeyView key, std::string_view content, Answer& answer);
  std::optional<GroupView> Parse(const LeafGeometry& geometry, size_t at, uint32_t unit,
                                 KeyView key, KeyView within) const;

  NodeCache::LeafSpot spot_;
  const Verb* home_read_ = nullptr;
  const Verb* overflow_read_ = nullptr;  // null: the overflow group was not read
  GuessedBlock guess_;
  std::byte* bytes_ = nullptr;
  uint64_t hash_ = 0;
  uint32_t home_ = 0;
  bool wants_overflow_ = false;
};

}  // namespace gossamer
