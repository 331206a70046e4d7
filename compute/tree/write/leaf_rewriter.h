// LeafRewriter: writes a locked leaf whole, for the many writes of a batch that lie in it.
//
// Where only values change, they are overwritten in the leaf's image. Else the writes are merged
// with all entries of the leaf, which then gets a new version: in place, or as several leaves.
//
// Thread-safety: none; one for each session.
// Cost: no allocation in the steady state but for splits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/idle_pool.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/leaf/key_ranks.h"
#include "compute/leaf/leaf_packer.h"
#include "compute/tree/shape/leaf_split.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_job.h"
#include "compute/tree/write/write_batch.h"

namespace gossamer {

class LeafRewriter {
 public:
  LeafRewriter(TreeContext& context, LeafLocker& leaves, const LeafCommitter& committer,
               LeafSplitter& splitter)
      : context_(context), leaves_(leaves), committer_(committer), splitter_(splitter) {}

  // Does the puts or deletes [first, end) of `batch` in the leaf of `job`, which was read whole.
  // Writes that were applied to its image before are written along. Always ends the lock. Adds to
  // `tally` what was done, and frees the blocks that were replaced. With results, that of a delete
  // of an absent key is NotFound, whatever this returns.
  // Requires: the leaf's range has the keys, and it can store them and the values inline.
  // Errors: as LeafSplitter::Split.
  // Cost: 1 RT; with splits 3 RT, for one parent; 1 RT more if the leaf has long keys.
  Task<Status> Rewrite(Op& op, LeafJob& job, WriteBatch& batch, size_t first, size_t end,
                       WriteTally& tally);

 private:
  // Kept for the next leaf.
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
    std::vector<BlockRef> replaced;
  };

  // Overwrites what the leaf stores for the keys of the puts [first, end), of which the entries
  // stay where they are.
  // Returns false if some of them do not fit so; what was overwritten is then overwritten again.
  bool Overwrite(LockedLeaf& locked, const WriteBatch& batch, size_t first, size_t end) const;
  // Writes the leaf whole from `bytes`, and ends its lock. They are its image, of which values have
  // changed, or another one of a new version.
  Task<Status> CommitWhole(LockedLeaf& locked, LocalAddress bytes) const;
  // Marks the entries that have expired as gone. Returns whether there are any.
  static bool DropExpired(const LeafEditor& editor, Scratch& scratch);
  // Merges the writes [first, end) with the leaf's entries. Returns whether that changes anything.
  static bool Merge(const LockedLeaf& locked, WriteBatch& batch, size_t first, size_t end,
                    Scratch& scratch, WriteTally& tally);
  // Fills `merged`.
  static void CollectInUnitOrder(Scratch& scratch);
  static void CollectByKey(Scratch& scratch);
  // Writes the merged entries.
  Task<Status> WriteMerged(Op& op, LockedLeaf& locked, const WriteBatch& batch, Scratch& scratch,
                           bool are_fewer);
  Task<Status> RewriteInPlace(LockedLeaf& locked, const LeafContent& content, LeafPacker& packer);
  // Notes a leaf that has lost entries, if few are left.
  void NoteIfSparse(const LockedLeaf& locked, const LeafContent& content,
                    const LeafPacker& packer) const;
  // How the leaf and the new entries are cut into leaves. New entries that come in one place are
  // taken for a part of more that comes in order: the leaves up to them get full.
  static std::vector<LeafSplitter::Part> PartsOf(const LockedLeaf& locked, const WriteBatch& batch,
                                                 const Scratch& scratch);

  TreeContext& context_;
  LeafLocker& leaves_;
  const LeafCommitter& committer_;
  LeafSplitter& splitter_;
  IdlePool<Scratch> idle_;
};

}  // namespace gossamer
