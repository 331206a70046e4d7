#include "compute/tree/write/leaf_commit.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "common/set_bits.h"
#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// Waiters whose jobs are granted along with one commit.
constexpr size_t kMaxGranted = 64;

}  // namespace

Task<Status> LeafCommitter::Commit(LeafJob& job) const {
  Prepare(job);
  co_return co_await CommitPrepared(job);
}

void LeafCommitter::Prepare(LeafJob& job) const {
  LockedLeaf& locked = job.locked;
  const LeafEditor& editor = *locked.editor;
  job.granted = GrantWaiters(locked);
  if (locked.path.has_parent() && editor.MayCorrectHint())
    leaves_.LearnHint(locked, locked.path.low);
  job.has_changes = editor.changed() != 0;
  job.is_sparse = editor.has_removed() && editor.IsSparse();
  job.next_turn = job.has_changes ? locked.lock.NextWaiter() : nullptr;
}

Task<Status> LeafCommitter::CommitPrepared(LeafJob& job) const {
  Status result = Ok();
  RemoteLock& lock = job.locked.lock;
  if (job.has_changes) {
    InlineBatch<kMaxVerbs> batch(job.locked.leaf().server());
    AddWrites(job.locked, batch);
    result = co_await lock.Commit(batch, job.after_commit());
  } else {
    result = co_await lock.Release();
  }
  co_return Conclude(job, result);
}

Status LeafCommitter::Conclude(LeafJob& job, const Status& result) const {
  Status status = job.has_changes ? result : rules::AnswerAfter(result);
  if (status) {
    ConcludeWritten(job);
  } else {
    AnswerWaiters(job, status);
  }
  return status;
}

void LeafCommitter::ConcludeWritten(LeafJob& job) const {
  if (!job.granted.empty()) AnswerWaiters(job, Ok());
  if (job.is_sparse) context_.events.OnSparseLeaf(Key(job.locked.within()));
  if (job.next_turn != nullptr) leaves_.HandOver(job.locked, *job.next_turn);
}

// Applies to the leaf what the jobs of waiters want of it, and takes them out of the queue: first
// come, first served, up to the first that cannot be done now. (To do those behind it first would
// spoil the order of an ascending load, and with it how full its leaves get.)
LockTable::WaiterList LeafCommitter::GrantWaiters(LockedLeaf& locked) const {
  LockTable::WaiterList granted;
  LockTable::Turn& turn = locked.lock.turn();
  if (!turn) return granted;
  LeafEditor& editor = *locked.editor;
  LockTable::WaiterList wishes = turn.TakeWishes(locked.leaf(), kMaxGranted);
  while (LockTable::Waiter* waiter = wishes.first()) {
    const LeafJob& job = LeafJob::From(*waiter->wish);
    LeafWrite& write = job.first();
    LinkedMemory links = locked.lock.linked();
    if (job.block) links.Add(*job.block);
    // It changes two units at most.
    const bool can =
        editor.knows(write.unit) && editor.Admits(write) &&
        std::popcount(editor.changed()) + 2 <= static_cast<int>(RemoteLock::kMaxWrites) &&
        context_.memory.MayLink(links, locked.leaf().server());
    const auto applied = can ? editor.Apply(write) : LeafEditor::Applied::kLater;
    if (applied != LeafEditor::Applied::kChanged && applied != LeafEditor::Applied::kRefused) break;
    locked.lock.linked() = links;
    granted.Push(wishes.Pop());
  }
  turn.PutBack(wishes);
  return granted;
}

void LeafCommitter::AnswerWaiters(LeafJob& job, const Status& status) const {
  while (!job.granted.empty()) {
    LockTable::Waiter& waiter = job.granted.Pop();
    LeafWrite& write = LeafJob::From(*waiter.wish).first();
    ++context_.counters.locks.combined;
    // Nothing was written; or not by this one, whose answer does not count then (rule L5).
    const bool is_open =
        !status && (write.HasChangedNothing() || status.error().code != Code::kMaybeApplied);
    if (is_open) {
      write.replaced.reset();
      job.locked.lock.turn().Resume(waiter, LockTable::Answer::kLookUp);
      continue;
    }
    if (!status) write.status = status.error();
    job.locked.lock.turn().Resume(waiter, LockTable::Answer::kDone);
  }
}

// The home groups come before the overflow group, so that a reader that sees an entry there finds
// the flag that leads to it (rule W1). What was combined is written together: each unit once.
void LeafCommitter::AddWrites(LockedLeaf& locked, Batch& batch) const {
  const LeafGeometry& geometry = context_.geometry();
  const RemotePtr leaf = locked.leaf();
  for (const uint32_t unit : SetBits(locked.editor->changed())) {
    const uint32_t at = geometry.unit_offset(unit);
    batch.AddMade(
        [&] { return Verb::Write(leaf.offset() + at, geometry.unit_bytes(), locked.image(at)); });
  }
  locked.editor->ForgetChanges();
}

void LeafCommitter::AddCommit(LeafJob& job, Batch& batch) const {
  RemoteLock& lock = job.locked.lock;
  assert(lock.is_held() && lock.IsInEpoch());
  const size_t first = batch.verbs().size();
  AddWrites(job.locked, batch);
  lock.AddEnd(batch, first, job.after_commit());
  job.batch = &batch;
}

}  // namespace gossamer
