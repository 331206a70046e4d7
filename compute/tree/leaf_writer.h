// LeafWriter: puts, inserts, updates and deletes. CAS and READ, then WRITE and release.
//
// Thread-safety: none; one for each session.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/leaf_split.h"
#include "compute/tree/locked_leaf.h"
#include "compute/tree/tree_context.h"

namespace gossamer {

class LeafWriter {
 public:
  LeafWriter(TreeContext& context, LeafLocker& leaves, LeafSplitter& splitter)
      : context_(context), leaves_(leaves), splitter_(splitter) {}

  // kDelete ignores `value`. 2 RT; 1 RT with a lock that was handed over; none if another's write does it. A value block
  // costs none of them: its WRITE goes out with the CAS, and is acknowledged before the entry is written. A key that
  // overflows (or may have) costs 1 RT more if no hint told: another compute server has filled its home group. Errors:
  // NotFound, AlreadyExists; InvalidArgument; Contended; MaybeApplied; NodeUnreachable and Fenced, with what was lost noted
  // in `op`; Exhausted; Corruption.
  Task<Status> Write(Op& op, WriteMode mode, KeyView key, std::string_view value);

 private:
  // A put is taken for an insert if one of the session's last so many puts was one.
  static constexpr uint32_t kPutsRemembered = 32;

  struct Block;

  Task<Status> PrepareBlock(Op& op, std::string_view value, Block& block, LeafWish& wish) const;
  // Does the write of `wish`, and what waiters wish for the leaf. Ends the lock in any case.
  Task<Result<Edited>> Edit(Op& op, LockedLeaf& locked, LeafWish& wish);
  LockTable::WaiterList GrantWishes(LockedLeaf& locked) const;
  void AnswerWishes(LockedLeaf& locked, LockTable::WaiterList& granted, const Status& status) const;
  Task<Status> CommitUnits(LockedLeaf& locked, RemoteLock::After after) const;
  Task<Status> CommitWhole(LockedLeaf& locked, RemoteLock::After after) const;

  TreeContext& context_;
  LeafLocker& leaves_;
  LeafSplitter& splitter_;
  uint32_t puts_since_insert_ = 0;
};

}  // namespace gossamer
