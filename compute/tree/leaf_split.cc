#include "compute/tree/leaf_split.h"

#include <algorithm>
#include <array>
#include <utility>

#include "compute/rules/rules.h"

namespace gossamer {
namespace {

Task<Result<Edited>> Fail(LockedLeaf& locked, Error error) {
  const Status ended = co_await LeafLocker::ReleaseAfter(locked, std::move(error));
  co_return ended.error();
}

}  // namespace

LeafSplitter::Rearrangement LeafSplitter::Rearrange(const LockedLeaf& locked, LeafWrite& write) {
  const Entry& entry = write.entry;
  Rearrangement anew;
  anew.rewrite = {locked.leaf(),         RemotePtr(),
                  locked.path.low,       Next(locked.unit(0).version()),
                  locked.unit(0).high(), locked.trailer->sibling()};
  const size_t usual = locked.editor->bytes(0).size() / 2;
  anew.before.reserve(usual);
  anew.after.reserve(usual);
  locked.editor->AppendTo(anew.before, anew.keys);
  for (const Entry& old : anew.before) {
    // A long key that may be this one is known by now.
    const bool is_replaced = AreEqual(old.key, entry.key) && locked.editor->knows_key(old);
    if (is_replaced && old.has_block()) write.replaced = old.block();
    if (!is_replaced) anew.after.push_back(old);
  }
  if (write.mode == WriteMode::kPut || write.mode == WriteMode::kModify) {
    const bool is_there = anew.after.size() < anew.before.size();
    write.kind = is_there ? OperationClass::kUpdate : OperationClass::kInsert;
  }
  anew.after.push_back(entry);
  return anew;
}

bool LeafSplitter::IsTooLong(const Bounds& bounds, const Entry& entry) const {
  return !entry.is_long() &&
         entry.key.size() > bounds.LongestKey(context_.geometry().max_suffix_bytes());
}

Task<Result<Edited>> LeafSplitter::Rewrite(Op& op, LockedLeaf& locked, LeafWrite& write) {
  const uint32_t node_bytes = context_.geometry().node_bytes();
  const RemotePtr leaf = locked.leaf();
  Result<BufferLease> images = context_.links.Buffer(2 * size_t{node_bytes});
  if (!images) co_return co_await Fail(locked, images.error());
  if (!locked.trailer) {
    const Status read = co_await leaves_.ReadRest(locked);
    if (!read) co_return co_await Fail(locked, read.error());
  }
  if (!locked.trailer->low().Matches(locked.path.low)) {
    co_return co_await Fail(locked,
                            CorruptNode(leaf, "a leaf that does not start where its parent says"));
  }
  Rearrangement anew = Rearrange(locked, write);

  // Deletes or shorter entries may have made room in other units, which only a new arrangement can
  // use.
  LeafContent content{anew.rewrite.version, anew.rewrite.low, anew.rewrite.high,
                      anew.rewrite.old_sibling, anew.after};
  if (!packer_.PlaceAll(content, LeafPacker::Own::kNever)) {
    // 1 RT if there are any.
    const Status known = co_await leaves_.ReadLongKeys(op, locked);
    if (!known) co_return co_await Fail(locked, known.error());
    anew = Rearrange(locked, write);
    content.low = anew.rewrite.low;
    content.entries = anew.after;
    const bool may_be_short = !IsTooLong(content.bounds(), write.entry);
    const bool fits = packer_.PlaceAll(
        content, may_be_short ? LeafPacker::Own::kForRoom : LeafPacker::Own::kAsNeeded);
    if (!fits) {
      std::vector<uint32_t> counts;
      for (uint32_t unit = 0; unit < context_.geometry().units(); ++unit) {
        counts.push_back(locked.unit(unit).count());
      }
      anew.cut = FindOrderedCut(anew.before, counts, anew.after, anew.rewrite.high.infinite);
      anew.images = std::move(images.value());
      co_return co_await Split(op, locked, write, anew);
    }
  }
  anew.images = std::move(images.value());
  const uint64_t hint = packer_.Encode(anew.image(node_bytes, 0), leaf, content);
  InlineBatch<2> batch(leaf.server());
  batch.Add(Verb::Write(leaf.offset(), node_bytes, anew.images.address()));
  BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Commit(batch, RemoteLock::After::kRelease));
  if (locked.path.has_parent()) context_.cache.ReplaceHint(write.entry.key, leaf, hint);
  co_return Edited::kDone;
}

// 1 RT: WRITE sibling, WRITE leaf, release, and the parent's lock and READs (1 RT more if the
// sibling is on another server). 1 RT: WRITE the parent, release.
Task<Result<Edited>> LeafSplitter::Split(Op& op, LockedLeaf& locked, LeafWrite& write,
                                         Rearrangement& anew) {
  const uint32_t node_bytes = context_.geometry().node_bytes();
  const RemotePtr leaf = locked.leaf();
  Result<Allocated<RemotePtr>> allocated =
      co_await context_.memory.AllocateNode(op, leaf.server(), NodeKind::kLeaf);
  if (!allocated) co_return co_await Fail(locked, allocated.error());
  const RemotePtr sibling = allocated.value().pointer();
  anew.rewrite.sibling = sibling;
  Edited edited = Edited::kDone;
  const std::optional<LeafHalves> encoded = EncodeHalves(write, anew, edited);
  if (!encoded && edited == Edited::kTooLong) {
    BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Release());
    co_return edited;
  }
  if (!encoded) {
    co_return co_await Fail(locked, CorruptNode(leaf, "a leaf that cannot be split"));
  }
  if (op.kind == OperationClass::kInsert || write.kind == OperationClass::kInsert) {
    op.kind = OperationClass::kInsertSplit;
  }
  locked.lock.linked().Add(allocated.value().stamp());
  allocated.value().Posted();
  LockedParent parent(context_.locks, op);
  const Halves halves{sibling,
                      anew.images.address(),
                      anew.images.address(node_bytes),
                      {leaf, 0, anew.rewrite.version, locked.path.low}};
  BOOST_OUTCOME_CO_TRYV(co_await CommitSplit(op, locked, halves, parent));
  allocated.value().Linked();
  const Key& separator = encoded->separator;
  const InternalNode::Child downlink{separator, sibling};
  if (locked.path.has_parent()) {
    context_.cache.InsertChildren(op.began.flushes, locked.path.parent, {&downlink, 1});
    const std::array<InternalNode::Child, 2> leaves{{{locked.path.low, leaf}, downlink}};
    const std::array<uint64_t, 2> hints{encoded->left_hint, encoded->right_hint};
    context_.cache.ReplaceHints(leaves, hints);
  }
  // Before waiting for a turn at the parent (rule W5). Half of the waiters belong to the sibling
  // now.
  if (rules::LeavesBeforeWaiting()) locked.lock.turn().Disband();

  // The split stands, and the write has succeeded. If the downlink cannot be made now (no memory, a
  // lock that stays taken), the next hop to the sibling makes it (rule W6).
  const Status linked = co_await parents_.Insert(op, 1, Downlinks(1, downlink), std::move(parent));
  static_cast<void>(linked);
  co_return edited;
}

std::optional<LeafHalves> LeafSplitter::EncodeHalves(LeafWrite& write, const Rearrangement& anew,
                                                     Edited& edited) {
  const uint32_t node_bytes = context_.geometry().node_bytes();
  const std::span<std::byte> left = anew.image(node_bytes, 0);
  const std::span<std::byte> right = anew.image(node_bytes, 1);
  std::optional<LeafHalves> halves;
  if (anew.cut.descends) halves = EncodeRoomBelow(packer_, anew.rewrite, anew.after, left, right);
  if (halves) return halves;
  halves = EncodeSplit(packer_, anew.rewrite, anew.after, anew.cut.left_count, left, right);
  if (halves) return halves;
  if (IsTooLong(Bounds::Of(anew.rewrite.low, anew.rewrite.high), write.entry)) {
    write.replaced.reset();
    edited = Edited::kTooLong;
    return std::nullopt;
  }
  // Long fences and fragmentation may leave no room for the entry in either half. Without it, both
  // fit.
  write.replaced.reset();
  edited = Edited::kSplitOnly;
  if (anew.before.size() < 2) return std::nullopt;
  std::optional<LeafHalves> without =
      EncodeSplit(packer_, anew.rewrite, anew.before, 0, left, right);
  if (without) return without;
  return EncodeEmptyLeft(packer_, anew.rewrite, anew.before, left, right);
}

// One queue pair: WRITE before WRITE before atomic before atomic before READ (O1-O4). Cost: 1 RT.
Task<Status> LeafSplitter::CommitSplit(Op& op, LockedLeaf& locked, const Halves& halves,
                                       LockedParent& parent) {
  const RemotePtr leaf = locked.leaf();
  if (halves.sibling.server() != leaf.server()) {
    co_return co_await CommitBehindSibling(op, locked, halves, parent);
  }
  const uint32_t bytes = context_.store.parameters.node_bytes;
  RemoteLock& lock = locked.lock;
  InlineBatch<6> batch(leaf.server());
  batch.Add(Verb::Write(halves.sibling.offset(), bytes, halves.right));
  batch.Add(Verb::Write(leaf.offset(), bytes, halves.left));
  bool fused = co_await parents_.TryPrepare(op, locked.path, locked.lock.place(), parent);
  if (fused) {
    BOOST_OUTCOME_CO_TRYV(co_await lock.EnterEpoch());
    // Meanwhile another coroutine may have lost the parent's server.
    fused = context_.links.LeaseWith(parent.lock.server()).incarnation != 0 && lock.MayLink();
  }
  if (!fused) {
    parent = LockedParent(context_.locks, op);
    co_return co_await lock.Commit(batch, RemoteLock::After::kRelease, halves.changed);
  }
  lock.AddEnd(batch, 0, RemoteLock::After::kRelease);
  InlineBatch<3> elsewhere(parent.lock.server());
  Batch& lookup = elsewhere.server() == leaf.server() ? static_cast<Batch&>(batch) : elsewhere;
  std::array<Verb, 3> reads;
  const uint32_t read_count = parents_.AddReads(parent, 1, halves.sibling, false, reads);
  RemoteLock::Taking taking;
  parent.lock.AddTaking(lookup, {reads.data(), read_count}, taking);
  Batch* const batches[] = {&batch, &elsewhere};
  co_await context_.links.ExecuteAll(op, batches);

  const uint64_t posted_at = op.posted_at;
  // The leaf first: its turn is kept until the commit's result is known (rule U2).
  const Status committed = co_await lock.FinishCommit(batch, halves.changed);
  // Then the parent's lock, likewise. Its CAS was posted at that time too: a queue pair that the commit has replaced since
  // is not replaced again.
  op.posted_at = posted_at;
  const Status found = co_await parent.lock.FinishTaking(taking, lookup);
  static_cast<void>(found);  // its memory server is gone
  parent.is_tried = lookup.status() == VerbStatus::kSuccess;
  if (parent.lock.is_held() && (!committed || !parent.is_tried)) {
    const Status released = co_await parent.lock.Release();
    if (committed && !released) parent = LockedParent(context_.locks, op);
  }
  co_return committed;
}

// Queue pairs are unordered (N3): the WRITE of a sibling on another server is acknowledged before
// the leaf is posted (rule W1). With it, the parent's lock is tried, and the parent read. If the
// lock is taken before any other operation can know the sibling, the sibling need not be checked
// (rule W4).
// Cost: 2 RT.
Task<Status> LeafSplitter::CommitBehindSibling(Op& op, LockedLeaf& locked, const Halves& halves,
                                               LockedParent& parent) {
  const RemotePtr leaf = locked.leaf();
  const ServerId server = halves.sibling.server();
  const uint32_t bytes = context_.store.parameters.node_bytes;
  const Verb write_sibling = Verb::Write(halves.sibling.offset(), bytes, halves.right);
  const Verb write_leaf = Verb::Write(leaf.offset(), bytes, halves.left);
  bool is_written = false;
  const bool fused = co_await parents_.TryPrepare(op, locked.path, locked.lock.place(), parent);
  if (fused) {
    InlineBatch<1> alone(server);
    alone.Add(write_sibling);
    const Verb read = parents_.ReadParent(parent);
    const Result<RemoteLock::Attempt> tried = co_await parent.lock.Try({&read, 1}, &alone);
    is_written = tried.has_value();
    parent.is_tried = is_written;
    parent.is_before_child = is_written && tried.value() == RemoteLock::Attempt::kTaken;
  }
  if (!is_written) {
    // Also if it is unknown whether the sibling was written.
    parent = LockedParent(context_.locks, op);
    const Status written = co_await context_.links.WriteUnseen(op, server, write_sibling);
    if (!written) {
      op.needs_other_memory = true;
      co_return co_await LeafLocker::ReleaseAfter(locked, written.error());
    }
  }
  InlineBatch<2> batch(leaf.server());
  batch.Add(write_leaf);
  const Status committed =
      co_await locked.lock.Commit(batch, RemoteLock::After::kRelease, halves.changed);
  if (!committed && parent.lock.is_held()) {
    const Status released = co_await parent.lock.Release();
    static_cast<void>(released);  // the leaf's error is returned
  }
  co_return committed;
}

}  // namespace gossamer
