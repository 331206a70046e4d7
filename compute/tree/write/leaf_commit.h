// LeafCommitter: writes the changed units of a locked leaf, and ends its lock.
//
// What waiters wish for the same leaf is done along with the caller's writes (command combining). The next waiter
// for the slot gets the lock without a release, if it may.
//
// Thread-safety: none; one for each session.
#pragma once

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/locked_leaf.h"

namespace gossamer {

class LeafCommitter {
 public:
  LeafCommitter(TreeContext& context, const LeafLocker& leaves)
      : context_(context), leaves_(leaves) {}

  // Writes what the leaf's editor has changed, together with the wishes that can be granted, and ends the lock. If
  // nothing has changed, it is released, and the caller's answer counts only after success (rule L5).
  // Errors: as RemoteLock::Commit, or RemoteLock::Release if there was nothing to write.
  // Cost: 1 RT.
  Task<Status> Commit(LockedLeaf& locked) const;

  // Commit in steps, for a caller that posts and awaits the verbs itself.
  //
  // What becomes of a leaf's lock and of its waiters.
  struct Ending {
    LockTable::WaiterList granted;
    bool has_changes = false;           // Without, the commit is the release alone.
    bool is_sparse = false;             // The leaf has lost entries, and may be worth a merge.
    Key key;                            // in the leaf's range
    LockTable::Waiter* next = nullptr;  // gets the lock
    RemoteLock::After after() const {
      return next != nullptr ? RemoteLock::After::kKeep : RemoteLock::After::kRelease;
    }
  };
  // Begins a commit, of which `ending` keeps what the other steps need: applies the wishes that can be granted.
  void Prepare(LockedLeaf& locked, Ending& ending) const;
  // The rest of Commit.
  Task<Status> Commit(LockedLeaf& locked, Ending& ending) const;
  // Verbs that AddCommit adds, at most.
  static constexpr uint32_t kMaxVerbs = RemoteLock::kMaxWrites + 1;
  // Adds the WRITEs of the changed units and the release. Requires: nothing was awaited since Prepare, and the lock is in
  // its epoch.
  void AddCommit(LockedLeaf& locked, const Ending& ending, Batch& batch) const;
  // Answers the waiters once the commit has ended with `result`. Returns the result for the caller's own writes.
  Status Conclude(LockedLeaf& locked, Ending& ending, const Status& result) const;
  // The same of a commit that has succeeded.
  void ConcludeWritten(LockedLeaf& locked, Ending& ending) const;

 private:
  LockTable::WaiterList GrantWishes(LockedLeaf& locked) const;
  void AnswerWishes(LockedLeaf& locked, LockTable::WaiterList& granted, const Status& status) const;
  // Adds the WRITEs of the changed units.
  void AddWrites(LockedLeaf& locked, Batch& batch) const;

  TreeContext& context_;
  const LeafLocker& leaves_;
};

}  // namespace gossamer
