#include "compute/tree/shape/merge_parts.h"

#include <algorithm>

#include "compute/session/server_batches.h"

namespace gossamer {

Task<Result<bool>> MergeParts::TryLocks(const Neighbours& nodes) {
  const std::array<RemotePtr, kRoles> pointers{nodes.parent, nodes.left, nodes.right};
  std::array<Verb, kRoles> reads;
  for (size_t role = 0; role < kRoles; ++role) {
    Part& part = parts_[role];
    BOOST_OUTCOME_CO_TRY(buffers, context_.links.Buffer(LockedBuffers::Bytes(node_bytes())));
    part.buffers = std::move(buffers);
    part.own.UseWords(part.buffers.address(LockedBuffers::kLockWord),
                      part.buffers.address(LockedBuffers::kUnlockWord));
    BOOST_OUTCOME_CO_TRYV(part.own.AimAt(pointers[role]));
    BOOST_OUTCOME_CO_TRYV(co_await context_.links.Register(op_, part.own.server()));
    reads[role] = Verb::Read(pointers[role].offset(), node_bytes(),
                             part.buffers.address(LockedBuffers::kImage));
  }
  if (!TryTakeTurns()) co_return false;
  parts_[kRight].lock().MarkAsMerge();
  // Meanwhile another coroutine may have lost one of the servers.
  const bool are_registered = std::ranges::all_of(
      parts_, [this](const Part& part) { return context_.links.IsRegistered(part.own.server()); });
  if (!are_registered) co_return false;
  ServerBatches batches;
  std::array<RemoteLock::Taking, kRoles> takings{};
  std::array<Batch*, kRoles> batch_of{};
  for (size_t role = 0; role < kRoles; ++role) {
    Part& part = parts_[role];
    batch_of[role] = &batches.For(part.own.server(), 2);
    if (part.same == nullptr) {
      part.own.AddTaking(*batch_of[role], {&reads[role], 1}, takings[role]);
    } else {
      batch_of[role]->Add(reads[role]);  // behind the CAS of the earlier part
    }
  }
  co_await context_.links.ExecuteAll(op_, batches.used());
  bool are_held = true;
  for (size_t role = 0; role < kRoles; ++role) {
    Part& part = parts_[role];
    are_held = are_held && batch_of[role]->status() == VerbStatus::kSuccess;
    if (part.same != nullptr) continue;
    const Status known = co_await part.own.FinishTaking(takings[role], *batch_of[role]);
    are_held = are_held && known && part.own.is_held();
  }
  co_return are_held;
}

bool MergeParts::TryTakeTurns() {
  for (size_t role = 0; role < kRoles; ++role) {
    Part& part = parts_[role];
    const std::span<Part> earlier(parts_.data(), role);
    const auto same = std::ranges::find_if(
        earlier, [&](const Part& other) { return other.own.place() == part.own.place(); });
    if (same != earlier.end()) {
      part.same = same->same == nullptr ? &*same : same->same;
      continue;
    }
    const bool has_turn =
        part.own.TryTakeTurn() || std::ranges::any_of(earlier, [&](const Part& other) {
          return part.own.TryShareTurn(other.own);
        });
    if (!has_turn) return false;
  }
  return true;
}

Task<void> MergeParts::ReleaseAll() {
  for (Part& part : parts_) {
    if (!part.own.is_held()) continue;
    static_cast<void>(co_await part.own.Release());  // nothing rests on what was read
  }
}

// Each WRITE is acknowledged before the next one is posted. The parent's lock is held until the
// right node is frozen: until then another operation could link it again (rule W4).
Task<Status> MergeParts::Commit(const Neighbours& nodes, const NodeUnion& both,
                                const InternalNode& parent, LocalAddress merged) {
  const auto write = [this](const Part& part) {
    return Verb::Write(part.own.node().offset(), node_bytes(),
                       part.buffers.address(LockedBuffers::kImage));
  };
  RemoteLock& above = parts_[kParent].lock();
  RemoteLock& left = parts_[kLeft].lock();
  RemoteLock& right = parts_[kRight].lock();
  {
    InlineBatch<2> batch(above.server());
    batch.Add(write(parts_[kParent]));
    BOOST_OUTCOME_CO_TRYV(co_await above.Commit(
        batch, RemoteLock::After::kKeep,
        RemoteLock::NewVersion{parts_[kParent].own.node(), parent.level, parent.version}));
  }
  {
    InlineBatch<2> batch(right.server());
    batch.Add(write(parts_[kRight]));
    const bool is_own = parts_[kRight].same == nullptr;
    BOOST_OUTCOME_CO_TRYV(co_await right.Commit(
        batch, is_own ? RemoteLock::After::kRelease : RemoteLock::After::kKeep,
        RemoteLock::NewVersion{nodes.right, nodes.level, both.frozen_version(), nodes.separator}));
  }
  InlineBatch<3> batch(left.server());
  batch.Add(Verb::Write(nodes.left.offset(), node_bytes(), merged));
  const RemoteLock::NewVersion changed{nodes.left, nodes.level, Next(both.version()), nodes.low};
  if (&left == &above) {
    co_return co_await left.Commit(batch, RemoteLock::After::kRelease, changed);
  }
  const bool may_join = left.IsInEpoch() && above.IsInEpoch();
  if (!may_join) {
    static_cast<void>(co_await above.Release());  // the right node is frozen: nobody links it again
    co_return co_await left.Commit(batch, RemoteLock::After::kRelease, changed);
  }
  left.AddEnd(batch, 0, RemoteLock::After::kRelease);
  InlineBatch<1> elsewhere(above.server());
  Batch& other = above.server() == left.server() ? static_cast<Batch&>(batch) : elsewhere;
  above.AddEnd(other, other.verbs().size(), RemoteLock::After::kRelease);
  Batch* const batches[] = {&batch, elsewhere.empty() ? nullptr : &elsewhere};
  co_await context_.links.ExecuteAll(op_, batches);
  const Status committed = co_await left.FinishCommit(batch, changed);
  static_cast<void>(co_await above.FinishCommit(other, {}));
  co_return committed;
}

}  // namespace gossamer
