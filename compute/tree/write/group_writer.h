// GroupWriter: does the writes of a batch that lie in one leaf, under one lock.
//
// A few writes change their units in the image, as single writes do. More are merged with all entries of the leaf,
// which is then written whole under a new version: in place, or as several leaves.
//
// Thread-safety: none; one for each session.
// Cost: no allocation in the steady state but for splits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/idle_pool.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/leaf/key_ranks.h"
#include "compute/leaf/leaf_packer.h"
#include "compute/tree/shape/leaf_split.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_commit.h"
#include "compute/tree/write/locked_leaf.h"
#include "compute/tree/write/write_batch.h"

namespace gossamer {

class GroupWriter {
 public:
  // More writes than this read and write the leaf whole. Each of so few changes two units at most.
  static constexpr size_t kFew = 4;
  static_assert(2 * kFew <= RemoteLock::kMaxWrites);

  // What a group has done.
  struct Tally {
    uint64_t inserted = 0;
    uint64_t updated = 0;
    uint64_t deleted = 0;
    uint64_t refused = 0;  // inserts of keys that are there, updates and deletes of absent ones

    Tally& operator+=(const Tally& other) {
      inserted += other.inserted;
      updated += other.updated;
      deleted += other.deleted;
      refused += other.refused;
      return *this;
    }
  };

  GroupWriter(TreeContext& context, LeafLocker& leaves, const LeafCommitter& committer,
              LeafSplitter& splitter)
      : context_(context), leaves_(leaves), committer_(committer), splitter_(splitter) {}

  // What the writes of a group have done. The blocks are freed once the leaf is written.
  struct Effect {
    Tally tally;
    std::vector<BlockRef> replaced;
  };

  // Does the puts or deletes [first, end) of `batch`, as far as their keys lie in one leaf, and moves `end` back to the
  // first that does not. `path` leads to the leaf; without a node, it is looked up. Sets the results of the writes:
  // they count if this returns Ok. After MaybeApplied, a write with the result NotFound has written nothing.
  // Requires: keys and values that a leaf stores inline.
  // Errors: as LeafWriter::Write. What has no error to report in `end` is that of all writes up to it.
  // Cost: 2 RT; 1 RT more if a few writes need more units than the hint told; 4 RT with splits, for one parent.
  Task<Status> Write(Op& op, WriteBatch& batch, size_t first, size_t& end,
                     const NodeCache::Step& path, Tally& tally);

  // Adds the verbs of `op`, which has done or tried `tally`, to the session's counters.
  void Count(const Op& op, WriteMode mode, const Tally& tally, bool has_succeeded);

  // The steps of a few writes, for a caller that locks and commits their leaf itself.
  //
  // Makes `write` the one at `position`, not done yet. (In place: it is large, and made for each key.)
  void MakeWrite(const WriteBatch& batch, size_t position, LeafWrite& write) const;
  // Applies `write`, that at `position`, to the leaf's units, and sets its result. Returns false if it cannot be applied
  // like that.
  static bool Apply(LockedLeaf& locked, WriteBatch& batch, size_t position, LeafWrite& write,
                    Effect& effect);
  // Call when the leaf is written.
  void Conclude(const Op& op, WriteMode mode, const Effect& effect);

 private:
  // Kept for the next group that rewrites its leaf.
  struct Scratch {
    explicit Scratch(const LeafGeometry& geometry);

    LeafPacker packer;
    KeyArena keys;
    std::vector<Entry> old;  // of the leaf, in the order of its units
    RankScratch rank_scratch;
    std::vector<uint32_t> ranks;   // of their keys
    std::vector<uint32_t> by_key;  // their numbers, in the order of their keys
    std::vector<uint8_t> is_gone;  // which of them were deleted
    std::vector<Entry> fresh;      // new keys
    std::vector<Entry> merged;
  };

  // Applies the writes [first, end). Returns the first that cannot be applied like that.
  size_t Apply(LockedLeaf& locked, WriteBatch& batch, size_t first, size_t end,
               Effect& effect) const;
  Task<Status> Edit(Op& op, LockedLeaf& locked, WriteBatch& batch, size_t first, size_t end,
                    Effect& effect);
  // Overwrites what the leaf stores for the keys of the puts [first, end), of which the entries stay where they are.
  // Returns false if some of them do not fit so; what was overwritten is then overwritten again.
  bool Overwrite(LockedLeaf& locked, WriteBatch& batch, size_t first, size_t end,
                 Effect& effect) const;
  // What CommitWhole writes.
  enum class Image : uint8_t {
    kOverwritten,  // the image of the locked leaf, of which values have changed
    kRewritten,    // another one, under a new version
  };
  // Writes the leaf whole from `bytes`, and ends its lock.
  Task<Status> CommitWhole(LockedLeaf& locked, LocalAddress bytes, Image image) const;
  // Merges the writes [first, end) with the leaf's entries. Returns whether that changes anything.
  bool Merge(const LockedLeaf& locked, WriteBatch& batch, size_t first, size_t end,
             Scratch& scratch, Effect& effect) const;
  // Fills `merged`.
  static void CollectInUnitOrder(Scratch& scratch);
  static void CollectByKey(Scratch& scratch);
  Task<Status> Rewrite(Op& op, LockedLeaf& locked, WriteBatch& batch, size_t first, size_t end,
                       Effect& effect);
  Task<Status> RewriteInPlace(LockedLeaf& locked, const LeafContent& content, LeafPacker& packer);
  // Notes a leaf that has lost entries, if few are left.
  void NoteIfSparse(const LockedLeaf& locked, const LeafContent& content,
                    const LeafPacker& packer) const;
  // How the leaf and the new entries are cut into leaves. New entries that come in one place are taken for a part of more that
  // comes in order: the leaves up to them get full.
  struct Cut {
    size_t parted_at = 0;  // no leaf has entries on both sides of this one; 0: any may
    LeafSplitter::Fill fill;
  };
  static Cut CutOf(const LockedLeaf& locked, const WriteBatch& batch, const Scratch& scratch);

  TreeContext& context_;
  LeafLocker& leaves_;
  const LeafCommitter& committer_;
  LeafSplitter& splitter_;
  IdlePool<Scratch> idle_;
};

}  // namespace gossamer
