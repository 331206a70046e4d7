// Leaf splits: the sibling is written where nobody sees it yet, then one WRITE of the old leaf makes it reachable.
#include <algorithm>

#include "common/mutants.h"
#include "compute/tree/tree.h"

namespace gossamer {

Task<Status> Tree::UnlockAfter(Operation& operation, LockedLeaf& locked, Error error) {
  BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, locked));
  co_return error;
}

// RT 2: READ the leaf whole, unless that was done along with the lock, as the leaf was known to be full. RT 3: WRITE the
// leaf, or split it.
Task<Status> Tree::RewriteLeaf(Operation& operation, LockedLeaf& locked, LeafWrite& write,
                               bool& done) {
  const uint32_t node_bytes = shared_.geometry.node_bytes();
  const RemotePtr leaf = locked.leaf();
  const Entry& entry = write.entry;
  Rearrangement anew;
  Result<BufferLease> images = Buffer(2 * size_t{node_bytes});
  if (!images) co_return co_await UnlockAfter(operation, locked, images.error());
  anew.images = std::move(images.value());
  if (!locked.trailer) {
    const Status read = co_await ReadRest(operation, locked);
    if (!read) co_return co_await UnlockAfter(operation, locked, read.error());
  }
  if (!locked.trailer->low().Matches(locked.path.low)) {
    co_return co_await UnlockAfter(
        operation, locked, CorruptNode(leaf, "a leaf that does not start where its parent says"));
  }
  anew.rewrite = {leaf,
                  RemotePtr(),
                  locked.path.low,
                  Next(locked.unit(0).version()),
                  locked.unit(0).high(),
                  locked.trailer->sibling()};
  locked.editor->AppendTo(anew.before);
  anew.after = anew.before;
  std::erase_if(anew.after, [&](const Entry& old) {
    const bool is_replaced = old.key == entry.key;
    if (is_replaced && old.is_block) write.replaced = old.block();
    return is_replaced;
  });
  if (write.mode == WriteMode::kPut) {
    const bool is_there = anew.after.size() < anew.before.size();
    write.kind = is_there ? OperationClass::kUpdate : OperationClass::kInsert;
  }
  anew.after.push_back(entry);

  // Deletes, or a shorter entry elsewhere, may have made room that only a new arrangement can use.
  const LeafContent content{anew.rewrite.version, anew.rewrite.low, anew.rewrite.high,
                            anew.rewrite.old_sibling, anew.after};
  if (!EncodeLeaf(anew.image(node_bytes, 0), leaf, shared_.geometry, content)) {
    co_return co_await SplitLeaf(operation, locked, write, anew, done);
  }
  InlineBatch<2> batch(leaf.server());
  batch.Add(Verb::Write(leaf.offset(), node_bytes, anew.images.address()));
  const Status committed =
      co_await Commit(operation, locked.lock, batch,
                      locked.buffers.address(LockedBuffers::kUnlockWord), AndThen::kUnlock);
  if (committed) {
    LearnRewritten(locked.path.parent, entry.key, leaf, anew.image(node_bytes, 0));
  }
  co_return committed;
}

// RT 3: WRITE sibling, WRITE leaf, unlock, and the lock of the parent with all that it needs (+1 RT when the sibling is
// on another server). RT 4: WRITE the parent, unlock.
Task<Status> Tree::SplitLeaf(Operation& operation, LockedLeaf& locked, LeafWrite& write,
                             Rearrangement& anew, bool& done) {
  const uint32_t node_bytes = shared_.geometry.node_bytes();
  const RemotePtr leaf = locked.leaf();
  Result<Allocated<RemotePtr>> allocated =
      co_await AllocateNode(operation, leaf.server(), NodeKind::kLeaf);
  if (!allocated) co_return co_await UnlockAfter(operation, locked, allocated.error());
  const RemotePtr sibling = allocated.value().pointer();
  anew.rewrite.sibling = sibling;
  const std::optional<Key> separator = EncodeHalves(write, anew, done);
  if (!separator) {
    co_return co_await UnlockAfter(operation, locked,
                                   CorruptNode(leaf, "a leaf that cannot be split"));
  }
  if (operation.kind == OperationClass::kInsert || write.kind == OperationClass::kInsert) {
    operation.kind = OperationClass::kInsertSplit;
  }
  locked.lock.links.Add(allocated.value().stamp());
  allocated.value().Posted();
  LockedParent parent;
  BOOST_OUTCOME_CO_TRYV(co_await CommitSplit(operation, locked, sibling, anew.images.address(),
                                             anew.images.address(node_bytes),
                                             {leaf, 0, anew.rewrite.version}, parent));
  if (!locked.path.parent.is_null()) {
    counters_.cache.evictions += shared_.cache.InsertChild(locked.path.parent, *separator, sibling);
  }
  LearnRewritten(locked.path.parent, locked.path.low, leaf, anew.image(node_bytes, 0));
  LearnRewritten(locked.path.parent, *separator, sibling, anew.image(node_bytes, 1));
  // Before a turn at the parent is waited for (rule W5). Half of the waiters belong to the sibling now.
  locked.lock.turn.Disband();

  // The split stands. A parent entry that cannot be made now (no memory, a lock that stays taken) is made by
  // the next hop over the sibling (rule W6), so that the write has succeeded all the same.
  const Status linked =
      co_await InsertIntoParent(operation, 1, *separator, sibling, std::move(parent));
  static_cast<void>(linked);
  co_return Ok();
}

std::optional<Key> Tree::EncodeHalves(LeafWrite& write, const Rearrangement& anew,
                                      bool& done) const {
  const LeafGeometry& geometry = shared_.geometry;
  const std::span<std::byte> left = anew.image(geometry.node_bytes(), 0);
  const std::span<std::byte> right = anew.image(geometry.node_bytes(), 1);
  const auto greater = static_cast<size_t>(std::ranges::count_if(
      anew.before, [&](const Entry& old) { return old.key > write.entry.key; }));
  // At the right edge of the tree, what is new goes alone, with the few that overtook it: ascending loads, also
  // those with many operations in flight, fill leaves.
  const bool at_edge = anew.rewrite.high.infinite && greater <= anew.after.size() / kEdgeFraction;
  std::optional<Key> separator =
      EncodeSplit(anew.rewrite, geometry, anew.after, at_edge ? greater + 1 : 0, left, right);
  if (separator) return separator;
  // Longest fences and fragments may leave no room for the entry in either half; without it there is.
  write.replaced.reset();
  if (anew.before.size() >= 2) {
    separator = EncodeSplit(anew.rewrite, geometry, anew.before, 0, left, right);
  }
  done = !separator;
  return separator;
}

void Tree::LearnRewritten(RemotePtr parent, KeyView key, RemotePtr leaf,
                          std::span<const std::byte> image) {
  if (parent.is_null()) return;
  const std::optional<LeafView> view = LeafView::Parse(image, leaf, shared_.geometry);
  if (!view) return;
  shared_.cache.ReplaceHint(reader_, parent, key, leaf, HintOf(*view, shared_.geometry));
}

// The parent's lock may be tried in the round trip that commits the leaf, if the parent is known, and its turn can be
// had without waiting (rule W5). The two locks are not held one for the other: the CASes may take effect in either
// order, and if the parent's fails, it is waited for with the leaf unlocked.
Task<bool> Tree::CanFuse(Operation& operation, const LockedLeaf& locked, LockedParent& parent) {
  const Techniques& techniques = shared_.options.techniques;
  if (!techniques.combine_commands || locked.path.parent.is_null()) co_return false;
  if (!AimAt(parent.lock, locked.path.parent) || !AllocateBuffers(parent)) co_return false;
  if (parent.lock.place == locked.lock.place) co_return false;
  const Status registered = co_await Register(operation, parent.lock.place.server);
  if (!registered) co_return false;
  if (!techniques.hierarchical_locks) co_return true;
  parent.lock.turn = shared_.locks.TryTake(parent.lock.place, scheduler_);
  co_return static_cast<bool>(parent.lock.turn);
}

// 1 RT: one queue pair, WRITE before WRITE before atomic before atomic before READ (O1-O4). 2 RT with a sibling on
// another server: queue pairs are unordered, so its WRITE is acknowledged before the leaf is posted (rule W1). The
// leaf's own WRITE, at most one MTU, is what commits (rule W2).
Task<Status> Tree::CommitSplit(Operation& operation, LockedLeaf& locked, RemotePtr sibling,
                               LocalAddress left, LocalAddress right, const NewVersion& changed,
                               LockedParent& parent) {
  const RemotePtr leaf = locked.leaf();
  const uint32_t bytes = shared_.parameters.node_bytes;
  NodeLock& lock = locked.lock;
  InlineBatch<7> batch(leaf.server());
  const Verb write_sibling = Verb::Write(sibling.offset(), bytes, right);
  const Verb write_leaf = Verb::Write(leaf.offset(), bytes, left);
  if (sibling.server() != leaf.server()) {
    if (IsBroken(Mutant::kW1Remote)) {
      const Status early = co_await WriteUnseen(operation, leaf.server(), write_leaf);
      static_cast<void>(early);
    }
    batch.Add(write_leaf);
    co_return co_await CommitBehindSibling(operation, locked, write_sibling, sibling.server(),
                                           batch, changed, parent);
  }
  if (IsBroken(Mutant::kW1Sibling)) batch.Add(write_leaf);
  batch.Add(write_sibling);
  if (IsBroken(Mutant::kW2)) batch.Add(Verb::Write(leaf.offset(), bytes / 2, left));
  batch.Add(write_leaf);
  const LocalAddress word_at = locked.buffers.address(LockedBuffers::kUnlockWord);
  bool fused = co_await CanFuse(operation, locked, parent);
  if (fused) {
    BOOST_OUTCOME_CO_TRYV(co_await EnterEpoch(operation, lock, lock.held));
    // Meanwhile another coroutine may have lost the parent's server.
    fused = LeaseWith(parent.lock.place.server).incarnation != 0 &&
            shared_.allocator.MayLink(lock.links, leaf.server());
  }
  if (!fused) {
    parent = LockedParent();
    co_return co_await Commit(operation, lock, batch, word_at, AndThen::kUnlock, changed);
  }
  const HeldLock held = std::exchange(lock.held, {});
  const size_t writes = batch.verbs().size();
  batch.Add(ReleaseVerb(lock, held, word_at));
  InlineBatch<3> elsewhere(parent.lock.node.server());
  Batch& lookup = elsewhere.server() == leaf.server() ? static_cast<Batch&>(batch) : elsewhere;
  const LockWord word = WordFor(parent.lock);
  const LocalAddress parent_word_at = parent.buffers.address(LockedBuffers::kLockWord);
  const size_t taking = lookup.verbs().size();
  lookup.Add(
      Verb::CompareSwap(Space::kLockTable, parent.lock.place.slot, 0, word.word(), parent_word_at));
  std::array<Verb, 2> reads;
  const uint32_t read_count = ParentReads(parent, 1, sibling, reads);
  for (uint32_t i = 0; i < read_count; ++i) lookup.Add(reads[i]);
  Batch* const batches[] = {&batch, &elsewhere};
  co_await ExecuteAll(operation, batches);

  // The leaf first: its turn is kept while it is found out what became of the commit (rule U2).
  Status committed = Ok();
  const bool is_known = std::ranges::all_of(batch.verbs().first(writes + 1), [](const Verb& verb) {
    return verb.status == VerbStatus::kSuccess;
  });
  if (is_known) {
    committed = CheckReleased(batch.verbs()[writes].old_value(), lock, held);
    if (!committed) committed.error().code = Code::kMaybeApplied;
  } else {
    committed = co_await CommitAgain(operation, locked, held, batch, writes, changed);
  }
  // Then the parent's lock, whose turn is kept likewise.
  const Verb& taken = lookup.verbs()[taking];
  if (taken.status != VerbStatus::kSuccess) {
    const Status found = co_await FindOut(operation, parent.lock, word, parent_word_at);
    static_cast<void>(found);  // A memory server that is gone.
  } else if (taken.old_value() == 0) {
    parent.lock.held = {word, 0};
    ++counters_.locks.acquired;
  } else {
    parent.lock.holder = LockWord::FromWord(taken.old_value());
  }
  parent.is_tried = lookup.status() == VerbStatus::kSuccess;
  if (parent.lock.held && (!committed || !parent.is_tried)) {
    const Status unlocked = co_await Unlock(operation, parent);
    if (committed && !unlocked) parent = LockedParent();
  }
  co_return committed;
}

// 2 RT: the WRITE of the sibling, acknowledged (rule W1), and at the same time the parent's lock with the parent; then
// `batch`, the leaf's WRITE. Who has the parent's lock before anybody can know the sibling need not ask whether that is
// still there (rule W4).
Task<Status> Tree::CommitBehindSibling(Operation& operation, LockedLeaf& locked,
                                       const Verb& write_sibling, ServerId server, Batch& batch,
                                       const NewVersion& changed, LockedParent& parent) {
  bool is_written = false;
  const bool fused = co_await CanFuse(operation, locked, parent);
  if (fused) {
    InlineBatch<1> alone(server);
    alone.Add(write_sibling);
    const Verb read = ReadParent(parent);
    const Result<bool> tried =
        co_await TryLock(operation, parent.lock, {&read, 1},
                         parent.buffers.address(LockedBuffers::kLockWord), &alone);
    is_written = tried.has_value();
    parent.is_tried = is_written;
    parent.is_before_child = is_written && tried.value();
  }
  if (!is_written) {
    // Or it is not known whether it was.
    parent = LockedParent();
    const Status written = co_await WriteUnseen(operation, server, write_sibling);
    if (!written) {
      operation.needs_other_memory = true;
      co_return co_await UnlockAfter(operation, locked, written.error());
    }
  }
  const LocalAddress word_at = locked.buffers.address(LockedBuffers::kUnlockWord);
  const Status committed =
      co_await Commit(operation, locked.lock, batch, word_at, AndThen::kUnlock, changed);
  if (!committed && parent.lock.held) {
    const Status unlocked = co_await Unlock(operation, parent);
    static_cast<void>(unlocked);  // The leaf's error is told.
  }
  co_return committed;
}

// What was posted ended in an unknown way: it is settled, and posted again as long as it has to be. Of `batch`, only
// the first verbs, the `writes`, concern the leaf.
Task<Status> Tree::CommitAgain(Operation& operation, LockedLeaf& locked, const HeldLock& held,
                               const Batch& batch, size_t writes, const NewVersion& changed) {
  NodeLock& lock = locked.lock;
  const LocalAddress word_at = locked.buffers.address(LockedBuffers::kUnlockWord);
  const Result<bool> applied =
      co_await Settle(operation, lock, held, AndThen::kUnlock, changed, word_at);
  if (!applied) co_return applied.error();
  if (applied.value()) co_return Ok();
  lock.held = held;
  InlineBatch<4> again(batch.server());
  for (const Verb& verb : batch.verbs().first(writes)) again.Add(verb);
  Status status = co_await Commit(operation, lock, again, word_at, AndThen::kUnlock, changed);
  // The lease has ended since: of the first try, nothing is known.
  if (!status) status.error().code = Code::kMaybeApplied;
  co_return status;
}

}  // namespace gossamer
