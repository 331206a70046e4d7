// LeafWriter: puts, inserts, updates and deletes: CAS and READ, then WRITE and release.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/shape/leaf_split.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/critical_path.h"
#include "compute/tree/write/leaf_commit.h"
#include "compute/tree/write/locked_leaf.h"

namespace gossamer {

class LeafWriter {
 public:
  LeafWriter(TreeContext& context, LeafLocker& leaves, LeafSplitter& splitter,
             const LeafCommitter& committer)
      : context_(context), leaves_(leaves), splitter_(splitter), committer_(committer) {}

  // How a write begins that is part of something larger.
  struct Part {
    NodeCache::Step path{};       // leads to the leaf; without a node, it is looked up
    std::optional<Moment> began;  // when `path` was looked up, if it was (rule R9)
    CriticalPath::Sequence* sequence =
        nullptr;  // only the round trips that lengthen its critical path are counted
    Modification* modification = nullptr;  // of kModify
  };

  // An operation of its own: started again after losses, and counted. kDelete ignores `value`. A `part` outlives it.
  // Errors: NotFound, AlreadyExists; InvalidArgument; Contended; MaybeApplied; NodeUnreachable;
  // Fenced; Exhausted; Corruption.
  // A long key: 1 RT more if the key is there, and if its leaf is not cached as it is.
  // Cost: 2 RT; 1 RT with a lock that was handed over; 0 RT if another operation does the write. 1
  // RT more for a key that may be in the overflow group, or has to go there, if no hint told:
  // another compute server has filled its home group. A value block adds no RT: its WRITE goes out
  // with the CAS, and is acknowledged before the entry is written.
  // In this order the key and the value come in registers. From the stack, where a caller has just put its halves, the copy
  // of a view into the coroutine waits for all earlier stores.
  Task<Status> WriteUntilDone(KeyView key, std::string_view value, WriteMode mode,
                              const Part* part = nullptr);
  // Replaces the value of `key` by what `modifier` makes of it, as one operation.
  // Errors: as WriteUntilDone; not NotFound and AlreadyExists.
  // Cost: as a put whose value is in the leaf. If the old or the new value is in a block: 2 RT more, 1 RT more to read the
  // old one, and all of it again whenever another write of the key came between.
  Task<Status> ModifyUntilDone(KeyView key, ValueModifier& modifier);

 private:
  struct Block;
  // A write from its start to its first end.
  struct Begun {
    Begun(RemoteLocks& locks, Op& op) : locked(locks, op) {}

    LeafWish wish;
    LockedLeaf locked;
    LeafLocker::Tried tried;
    bool is_tried = false;
  };

  // The value that the modification has noted; nullopt if its block is another's by now.
  Task<Result<std::optional<std::string>>> ReadNoted(Op& op, KeyView key,
                                                     const Modification& modification);
  LeafWrite MakeWrite(const Op& op, WriteMode mode, KeyView key, std::string_view value) const;
  // The form in which a leaf takes a write.
  Entry::Kind KindFor(KeyView key, std::string_view value) const;
  // Whether the first try of a write without a block can be posted now. Prepares it.
  bool Prepare(Begun& begun);
  // Once the first try has ended: whether its leaf is locked and has the write in its image. If not, Write goes on.
  bool AcceptFirst(Begun& begun) const;
  // Does a write that has begun, with `path` and perhaps a first try.
  // Errors: as WriteUntilDone, with the loss noted in `op`.
  Task<Status> Write(Op& op, Begun& begun);
  // Call when a write has ended with `status`.
  void Conclude(Op& op, const LeafWrite& write, const Status& status);
  // Gives `wish` an entry of that kind, which has a block, and that block its content.
  Task<Status> PrepareBlock(Op& op, Entry::Kind kind, std::string_view value, Block& block,
                            LeafWish& wish) const;
  // Does the write of `wish` and the waiters' wishes for the leaf. Always ends the lock.
  Task<Result<Edited>> Edit(Op& op, LockedLeaf& locked, LeafWish& wish);

  TreeContext& context_;
  LeafLocker& leaves_;
  LeafSplitter& splitter_;
  const LeafCommitter& committer_;
};

}  // namespace gossamer
