// LeafCommitter: writes the changed units of a job's leaf, and ends its lock.
//
// The jobs of waiters for the same leaf are done along (command combining). The next waiter for the
// slot gets the lock without a release, if it may.
//
// Thread-safety: none; one for each session.
#pragma once

#include "common/status.h"
#include "common/task.h"
#include "compute/tree/tree_context.h"
#include "compute/tree/write/leaf_locker.h"

namespace gossamer {

class LeafCommitter {
 public:
  LeafCommitter(TreeContext& context, const LeafLocker& leaves)
      : context_(context), leaves_(leaves) {}

  // Writes what the leaf's editor has changed, together with the waiters' jobs that can be granted,
  // and ends the lock. If nothing has changed, it is released, and the caller's answer counts only
  // after success (rule L5).
  // Errors: as RemoteLock::Commit, or RemoteLock::Release if there was nothing to write.
  // Cost: 1 RT.
  Task<Status> Commit(LeafJob& job) const;

  // Commit in steps, for a caller that posts and awaits the verbs itself.
  //
  // Applies the waiters' jobs that can be granted, and decides how the lock ends.
  void Prepare(LeafJob& job) const;
  // Verbs that AddCommit adds, at most.
  static constexpr uint32_t kMaxVerbs = RemoteLock::kMaxWrites + 1;
  // Adds the WRITEs of the changed units and the release. Requires: nothing was awaited since
  // Prepare, and the lock is in its epoch.
  void AddCommit(LeafJob& job, Batch& batch) const;
  // Posts and awaits what Prepare has prepared, instead of AddCommit. As Commit.
  Task<Status> CommitPrepared(LeafJob& job) const;
  // Answers the waiters once the commit has ended with `result`. Returns the result for the job's
  // own writes.
  Status Conclude(LeafJob& job, const Status& result) const;
  // The same of a commit that has succeeded.
  void ConcludeWritten(LeafJob& job) const;

 private:
  LockTable::WaiterList GrantWaiters(LockedLeaf& locked) const;
  void AnswerWaiters(LeafJob& job, const Status& status) const;
  // Adds the WRITEs of the changed units.
  void AddWrites(LockedLeaf& locked, Batch& batch) const;

  TreeContext& context_;
  const LeafLocker& leaves_;
};

}  // namespace gossamer
