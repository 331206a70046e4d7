#include "compute/tree/write/leaf_commit.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// Waiters whose wishes are granted along with one write.
constexpr size_t kMaxGranted = 64;

}  // namespace

void LeafCommitter::Prepare(LockedLeaf& locked, Ending& ending) const {
  // What others wish for this leaf goes along.
  ending.granted = GrantWishes(locked);
  if (locked.path.has_parent() && locked.editor->MayCorrectHint())
    leaves_.LearnHint(locked, locked.path.low);
  ending.has_changes = locked.editor->changed() != 0;
  ending.is_sparse = locked.editor->has_removed() && locked.editor->IsSparse();
  if (ending.is_sparse) ending.key = locked.path.low;
  ending.next = ending.has_changes ? locked.lock.NextWaiter() : nullptr;
}

Status LeafCommitter::Conclude(LockedLeaf& locked, Ending& ending, const Status& result) const {
  Status status = ending.has_changes ? result : rules::AnswerAfter(result);
  if (status) {
    ConcludeWritten(locked, ending);
  } else {
    AnswerWishes(locked, ending.granted, status);
  }
  return status;
}

void LeafCommitter::ConcludeWritten(LockedLeaf& locked, Ending& ending) const {
  if (!ending.granted.empty()) AnswerWishes(locked, ending.granted, Ok());
  if (ending.is_sparse) context_.note_sparse(ending.key);
  if (ending.next != nullptr) leaves_.HandOver(locked, *ending.next);
}

Task<Status> LeafCommitter::Commit(LockedLeaf& locked) const {
  Ending ending;
  Prepare(locked, ending);
  co_return co_await Commit(locked, ending);
}

Task<Status> LeafCommitter::Commit(LockedLeaf& locked, Ending& ending) const {
  Status result = Ok();
  if (ending.has_changes) {
    InlineBatch<kMaxVerbs> batch(locked.leaf().server());
    AddWrites(locked, batch);
    result = co_await locked.lock.Commit(batch, ending.after());
  } else {
    result = co_await locked.lock.Release();
  }
  co_return Conclude(locked, ending, result);
}

// Applies to the leaf what waiters wish for it, and takes them out of the queue: first come, first served, up to the
// first that cannot be done now. (To do those behind it first would spoil the order of an ascending load, and with it
// how full its leaves get.)
LockTable::WaiterList LeafCommitter::GrantWishes(LockedLeaf& locked) const {
  LockTable::WaiterList granted;
  LockTable::Turn& turn = locked.lock.turn();
  if (!turn) return granted;
  LeafEditor& editor = *locked.editor;
  LockTable::WaiterList wishes = turn.TakeWishes(locked.leaf(), kMaxGranted);
  while (LockTable::Waiter* waiter = wishes.first()) {
    LeafWish& wish = LeafWish::From(*waiter->wish);
    LinkedMemory links = locked.lock.linked();
    if (wish.block) links.Add(*wish.block);
    // It changes two units at most.
    const bool can =
        editor.knows(wish.write.unit) && editor.Admits(wish.write) &&
        std::popcount(editor.changed()) + 2 <= static_cast<int>(RemoteLock::kMaxWrites) &&
        context_.memory.MayLink(links, locked.leaf().server());
    const auto applied = can ? editor.Apply(wish.write) : LeafEditor::Applied::kLater;
    if (applied != LeafEditor::Applied::kChanged && applied != LeafEditor::Applied::kRefused) break;
    locked.lock.linked() = links;
    granted.Push(wishes.Pop());
  }
  turn.PutBack(wishes);
  return granted;
}

void LeafCommitter::AnswerWishes(LockedLeaf& locked, LockTable::WaiterList& granted,
                                 const Status& status) const {
  while (!granted.empty()) {
    LockTable::Waiter& waiter = granted.Pop();
    LeafWrite& write = LeafWish::From(*waiter.wish).write;
    ++context_.counters.locks.combined;
    // Nothing was written; or not by this one, whose answer does not count then (rule L5).
    const bool wrote_nothing =
        !write.status || (write.modification != nullptr && !write.modification->is_applied());
    const bool is_open = !status && (wrote_nothing || status.error().code != Code::kMaybeApplied);
    if (is_open) {
      write.replaced.reset();
      locked.lock.turn().Resume(waiter, LockTable::Answer::kLookUp);
      continue;
    }
    if (!status) write.status = status.error();
    locked.lock.turn().Resume(waiter, LockTable::Answer::kDone);
  }
}

// The home groups come before the overflow group, so that a reader that sees an entry there finds the flag that leads
// to it (rule W1). What was combined is written together: each unit once.
void LeafCommitter::AddWrites(LockedLeaf& locked, Batch& batch) const {
  const LeafGeometry& geometry = context_.geometry();
  const RemotePtr leaf = locked.leaf();
  for (uint32_t rest = locked.editor->changed(); rest != 0; rest &= rest - 1) {
    const auto unit = static_cast<uint32_t>(std::countr_zero(rest));
    const uint32_t at = geometry.unit_offset(unit);
    batch.AddMade(
        [&] { return Verb::Write(leaf.offset() + at, geometry.unit_bytes(), locked.image(at)); });
  }
  locked.editor->ForgetChanges();
}

void LeafCommitter::AddCommit(LockedLeaf& locked, const Ending& ending, Batch& batch) const {
  assert(locked.lock.is_held() && locked.lock.IsInEpoch());
  const size_t first = batch.verbs().size();
  AddWrites(locked, batch);
  locked.lock.AddEnd(batch, first, ending.after());
}

}  // namespace gossamer
