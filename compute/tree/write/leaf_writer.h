// LeafWriter: the writes of one leaf: CAS and READs, the changes in the image, then WRITEs and
// release.
//
// A single write in the plain case is one coroutine, which takes a LeafJob through its steps. The
// rest of single writes, and groups of a batch, go on with the same steps where each waits for what
// it needs: turn, lock, units that are not read yet, room.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/status.h"
#include "common/task.h"
#include "compute/node/new_block.h"
#include "compute/tree/shape/leaf_split.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_job.h"
#include "compute/tree/write/leaf_rewriter.h"
#include "compute/tree/write/operation_sequence.h"
#include "compute/tree/write/write_batch.h"

namespace gossamer {

class LeafWriter {
 public:
  LeafWriter(TreeContext& context, LeafLocker& leaves, LeafSplitter& splitter,
             const LeafCommitter& committer, LeafRewriter& rewriter)
      : context_(context),
        leaves_(leaves),
        splitter_(splitter),
        committer_(committer),
        rewriter_(rewriter) {}

  // How a write begins that is part of something larger.
  struct Part {
    NodeCache::Step path{};       // leads to the leaf; without a node, it is looked up
    std::optional<Moment> began;  // when `path` was looked up (R9: no pointer of an earlier lease)
    OperationSequence* sequence =
        nullptr;  // only the round trips that lengthen its critical path are counted
    Modification* modification = nullptr;  // of kModify
    SharedPatience* patience = nullptr;
  };

  // An operation of its own: started again after losses, and counted. kDelete ignores `value`. A
  // `part` outlives it.
  // Errors: NotFound, AlreadyExists; InvalidArgument; Contended; MaybeApplied; NodeUnreachable;
  // Fenced; Exhausted; NoResources; Corruption.
  // A long key: 1 RT more if the key is there, and if its leaf is not cached as it is.
  // Cost: 2 RT; 1 RT with a lock that was handed over; 0 RT if another operation does the write. 1
  // RT more for a key that may be in the overflow group, or has to go there, if no hint told:
  // another compute server has filled its home group. A value block adds no RT: its WRITE goes out
  // with the CAS, and is acknowledged before the entry is written.
  // In this order the key and the value come in registers. From the stack, where a caller has just
  // put its halves, the copy of a view into the coroutine waits for all earlier stores.
  Task<Status> WriteUntilDone(KeyView key, std::string_view value, WriteMode mode,
                              const Part* part = nullptr, Expiry expiry = {});
  // Replaces the value of `key` by what `modifier` makes of it, as one operation.
  // Errors: as WriteUntilDone; not NotFound and AlreadyExists.
  // Cost: as a put whose value is in the leaf. If the old or the new value is in a block: 2 RT
  // more, 1 RT more to read the old one, and all of it again whenever another write of the key came
  // between.
  Task<Status> ModifyUntilDone(KeyView key, ValueModifier& modifier,
                               SharedPatience* patience = nullptr);

  // Does the puts or deletes [first, end) of `batch`, as far as their keys lie in one leaf, and
  // moves `end` back to the first that does not. `path` leads to the leaf; without a node, it is
  // looked up. Sets the results of the writes: they count if this returns Ok. After MaybeApplied, a
  // write with the result NotFound has written nothing.
  // Requires: keys that a leaf stores itself, and values of WriteBatch::kLongestTogether at most.
  // Errors: as WriteUntilDone, with the loss noted in `op`. An error is that of all writes up to
  // `end`.
  // Cost: 2 RT; 1 RT more if some values go to blocks, if few writes need more units than the hint
  // told; 4 RT with splits, for one parent.
  Task<Status> WriteGroup(Op& op, WriteBatch& batch, size_t first, size_t& end,
                          const NodeCache::Step& path, WriteTally& tally);
  // Adds the verbs of `op`, which has done or tried `tally`, to the session's counters.
  void Count(const Op& op, WriteMode mode, const WriteTally& tally, bool has_succeeded);

  // Steps of a job, for a caller that takes many through them: see WritePipeline.
  //
  // Makes `write` the one at `position`, not done yet. (In place: it is large, and made for each
  // key.)
  void MakeWrite(const WriteBatch& batch, size_t position, LeafWrite& write) const;
  // Applies the writes to the leaf's image. Stops at the first that cannot be applied like that,
  // and behind a modification that is undecided. Returns how many were applied.
  static size_t Apply(LeafJob& job);
  // Call when the leaf is written: remembers whether puts were inserts. `tally`: what was done.
  void NoteDone(WriteMode mode, const WriteTally& tally);
  // The write of a key with that hash has ended: NewBlock::End. Remembers where the value is now.
  void EndBlock(uint64_t hash, const Status& status, bool is_stored, NewBlock& block) const;

 private:
  // The value that the modification has noted; nullopt if its block is another's by now.
  Task<Result<std::optional<std::string>>> ReadNoted(Op& op, KeyView key,
                                                     const Modification& modification);
  void MakeWrite(WriteMode mode, KeyView key, std::string_view value, Expiry expiry,
                 LeafWrite& write) const;
  // The form in which a leaf takes a write.
  Entry::Kind KindFor(KeyView key, std::string_view value, bool may_expire) const;
  // Whether the first try of a write without a block can be posted now. Adds it to `batch`.
  bool Begin(LeafJob& job, Batch& batch) const;
  // Does a job of one write, which may have been tried.
  // Errors: as WriteUntilDone, with the loss noted in `op`.
  Task<Status> Finish(Op& op, LeafJob& job);
  // Call when the leaf is written: frees the blocks that these of its writes replaced.
  void FreeReplaced(const Op& op, std::span<const LeafWrite> writes);
  // Call when the job of one write has ended with `status`.
  void NoteOneDone(Op& op, const LeafWrite& write, const Status& status);
  // Gives the job's write an entry of that kind, which has a block, and that block its content and
  // its WRITE.
  Task<Status> PrepareBlock(Op& op, Entry::Kind kind, std::string_view value, LoneBlock& lone,
                            LeafJob& job) const;
  // Does the one write of a job whose leaf is locked, and those of waiters. Always ends the lock.
  Task<Result<Edited>> Edit(Op& op, LeafJob& job);
  // Gives the writes [first, end) of `batch` the blocks that they need, near `near`, and writes
  // those. `blocks` stays empty, at 0 RT, if none does.
  Task<Status> WriteBlocks(Op& op, WriteBatch& batch, WriteBatch::Range writes,
                           std::optional<ServerId> near, NewBlocks& blocks);
  // The writes up to `end` have ended with `status`; the others were not tried.
  void EndBlocks(WriteBatch& batch, size_t first, size_t end, const Status& status,
                 NewBlocks& blocks) const;
  // WriteGroup, once the blocks are written.
  Task<Status> WriteInLeaf(Op& op, WriteBatch& batch, size_t first, size_t& end,
                           const NodeCache::Step& path, WriteTally& tally, const NewBlocks& blocks);
  // Does the writes [first, end) of `batch`, of which the job has the first or all. Always ends the
  // lock.
  Task<Status> EditGroup(Op& op, LeafJob& job, WriteBatch& batch, size_t first, size_t end,
                         WriteTally& tally);

  // Whether the next put is probably an insert: one of the last kRememberedPuts was. An insert
  // needs more units of its leaf than an update, and reads them along if it is expected.
  bool ExpectsInsert() const { return puts_since_insert_ < kRememberedPuts; }

  static constexpr uint64_t kRememberedPuts = 32;

  TreeContext& context_;
  LeafLocker& leaves_;
  LeafSplitter& splitter_;
  const LeafCommitter& committer_;
  LeafRewriter& rewriter_;
  uint64_t puts_since_insert_ = 0;
};

}  // namespace gossamer
