#include "compute/tree/shape/leaf_split.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <utility>

#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// More new leaves than this are not added to the cached parent in advance. They usually split the
// parent, and the copy that has them would soon be thrown away.
constexpr size_t kMostCachedAhead = 4;
// For an estimate of what fits into a leaf.
constexpr size_t kUsualFenceBytes = 8;
// How much of its room a leaf holds at least, nearly always: entries do not fill units evenly.
constexpr double kUsualPacking = 0.88;

// Whether the parent may be read along. Since its lock was prepared, another coroutine may have
// lost its server, or have got a lease that is later than the operation's pointers (rule R9).
bool MayReadAlong(const Links& links, const Op& op, const LockedParent& parent) {
  const ServerId server = parent.lock.server();
  return links.LeaseWith(server).incarnation != 0 && links.MayUse(op, server);
}

}  // namespace

LeafSplitter::Plan::Plan(const LeafPacker& packer, KeyView low, const Part& part)
    : prefix_bytes(Bounds::Of(low, part.high).prefix.size()), rest(part.rest) {
  double most = part.fill * static_cast<double>(packer.Capacity(kUsualFenceBytes));
  if (rest == Rest::kToFirst && !part.entries.empty()) {
    prefix_bytes = CommonBytes(part.entries.front().key, part.entries.back().key);
    most *= kUsualPacking;
  }
  bytes = LeafPacker::BytesOf(part.entries, prefix_bytes);
  room = std::max<size_t>(1, static_cast<size_t>(most));
  leaves = (bytes + room - 1) / room;
}

LeafPacker::Most LeafSplitter::Plan::most() const {
  switch (rest) {
    case Rest::kToLast: break;
    case Rest::kToFirst: return {bytes - std::min(bytes, (leaves - 1) * room) + 1, prefix_bytes};
    case Rest::kToAll: return {bytes / std::max<size_t>(leaves, 1) + 1, prefix_bytes};
  }
  return {room, {}};
}

void LeafSplitter::Plan::Placed(std::span<const Entry> entries) {
  bytes -= LeafPacker::BytesOf(entries, prefix_bytes);
  if (leaves > 1) --leaves;
  if (rest == Rest::kToFirst) rest = Rest::kToAll;
}

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
  bool is_there = false;
  for (const Entry& old : anew.before) {
    // A long key that may be this one is known by now.
    const bool is_replaced = AreEqual(old.key, entry.key) && locked.editor->knows_key(old);
    const bool is_touched = is_replaced && old.stored.data() == entry.stored.data();
    if (is_replaced && old.has_block() && !is_touched) write.replaced = old.block();
    if (is_replaced) is_there = !locked.editor->HasExpired(old);
    if (!is_replaced) anew.after.push_back(old);
  }
  if (write.mode == WriteMode::kPut || write.mode == WriteMode::kModify) {
    write.kind = is_there ? OperationClass::kUpdate : OperationClass::kInsert;
  }
  anew.after.push_back(entry);
  return anew;
}

bool LeafSplitter::IsTooLong(const Bounds& bounds, const Entry& entry) const {
  return !entry.is_long() &&
         entry.key.size() >
             bounds.LongestKey(context_.geometry().max_suffix_bytes(entry.expires()));
}

Task<Result<Edited>> LeafSplitter::Rewrite(Op& op, LockedLeaf& locked, LeafWrite& write) {
  const uint32_t node_bytes = context_.geometry().node_bytes();
  const RemotePtr leaf = locked.leaf();
  Result<BufferLease> lease = context_.links.Buffer(node_bytes);
  if (!lease) co_return co_await locked.lock.ReleaseAfter(lease.error());
  BufferLease image = std::move(lease.value());
  if (!locked.trailer) {
    const Status read = co_await leaves_.ReadRest(locked);
    if (!read) co_return co_await locked.lock.ReleaseAfter(read.error());
  }
  if (!locked.trailer->low().Matches(locked.path.low)) {
    co_return co_await locked.lock.ReleaseAfter(
        CorruptNode(leaf, "a leaf that does not start where its parent says"));
  }
  Rearrangement anew = Rearrange(locked, write);

  // Deletes or shorter entries may have made room in other units, which only a new arrangement can
  // use.
  LeafContent content{anew.rewrite.version, anew.rewrite.low, anew.rewrite.high,
                      anew.rewrite.old_sibling, anew.after};
  bool fits = false;
  if (!locked.editor->UnknownLongKeys(std::nullopt).empty()) {
    fits = packer_.PlaceAll(content, LeafPacker::Own::kNever);
    if (!fits) {
      // 1 RT.
      const Status known = co_await leaves_.ReadLongKeys(op, locked);
      if (!known) co_return co_await locked.lock.ReleaseAfter(known.error());
      anew = Rearrange(locked, write);
      content.low = anew.rewrite.low;
      content.entries = anew.after;
    }
  }
  if (!fits) {
    const bool may_be_short = !IsTooLong(content.bounds(), write.entry);
    fits = packer_.PlaceAll(content,
                            may_be_short ? LeafPacker::Own::kForRoom : LeafPacker::Own::kAsNeeded);
  }
  if (!fits) {
    std::vector<uint32_t> counts;
    for (uint32_t unit = 0; unit < context_.geometry().units(); ++unit) {
      counts.push_back(locked.unit(unit).count());
    }
    anew.cut = FindOrderedCut(anew.before, counts, anew.after, anew.rewrite.high.infinite);
    co_return co_await SplitInTwo(op, locked, write, anew, std::move(image));
  }
  const uint64_t hint = packer_.Encode({image.data(), node_bytes}, leaf, content);
  InlineBatch<2> batch(leaf.server());
  batch.Add(Verb::Write(leaf.offset(), node_bytes, image.address()));
  BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Commit(batch, RemoteLock::After::kRelease));
  if (locked.path.has_parent()) context_.cache.ReplaceHint(write.entry.key, leaf, hint);
  co_return Edited::kDone;
}

Task<Result<Edited>> LeafSplitter::SplitInTwo(Op& op, LockedLeaf& locked, LeafWrite& write,
                                              Rearrangement& anew, BufferLease image) {
  const uint32_t node_bytes = context_.geometry().node_bytes();
  const RemotePtr leaf = locked.leaf();
  Result<Allocated<RemotePtr>> allocated =
      co_await context_.memory.AllocateNode(op, leaf.server(), NodeKind::kLeaf);
  if (!allocated) co_return co_await locked.lock.ReleaseAfter(allocated.error());
  anew.rewrite.sibling = allocated.value().pointer();
  Chain chain(context_, 1);
  const Result<std::span<std::byte>> right = chain.unseen.Add(anew.rewrite.sibling);
  if (!right) co_return co_await locked.lock.ReleaseAfter(right.error());
  Edited edited = Edited::kDone;
  const std::optional<LeafHalves> halves =
      EncodeHalves(write, anew, {image.data(), node_bytes}, right.value(), edited);
  if (!halves && edited == Edited::kTooLong) {
    BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Release());
    co_return edited;
  }
  if (!halves) {
    co_return co_await locked.lock.ReleaseAfter(CorruptNode(leaf, "a leaf that cannot be split"));
  }
  if (op.kind == OperationClass::kInsert || write.kind == OperationClass::kInsert) {
    op.kind = OperationClass::kInsertSplit;
  }
  chain.first = std::move(image);
  chain.first_hint = halves->left_hint;
  chain.downlinks.push_back({halves->separator, anew.rewrite.sibling});
  chain.hints.push_back(halves->right_hint);
  chain.memory.push_back(std::move(allocated.value()));
  BOOST_OUTCOME_CO_TRYV(co_await Commit(op, locked, chain));
  co_return edited;
}

std::optional<LeafHalves> LeafSplitter::EncodeHalves(LeafWrite& write, const Rearrangement& anew,
                                                     std::span<std::byte> left,
                                                     std::span<std::byte> right, Edited& edited) {
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

Task<Status> LeafSplitter::Build(Op& op, const LockedLeaf& locked, LeafPacker& packer,
                                 std::span<const Part> parts, std::span<Plan> plans, Chain& chain) {
  const uint32_t node_bytes = context_.geometry().node_bytes();
  BOOST_OUTCOME_CO_TRY(first, context_.links.Buffer(node_bytes));
  chain.first = std::move(first);

  LeafContent content;
  content.version = Next(locked.unit(0).version());
  Key low = locked.path.low;
  std::span<std::byte> image(chain.first.data(), node_bytes);
  RemotePtr leaf = locked.leaf();
  for (size_t number = 0; number < parts.size(); ++number) {
    const Part& part = parts[number];
    Plan& plan = plans[number];
    bool is_placed = false;
    for (size_t begin = 0; !is_placed;) {
      const LeafPacker::Supply supply{part.entries, low, part.high, begin};
      const auto [end, own] = packer.Place(supply, plan.most());
      is_placed = end == part.entries.size();
      const bool is_last = is_placed && number + 1 == parts.size();
      content.low = low;
      content.high = is_placed ? part.high : HighFence::At(LeafPacker::FenceAt(supply, end));
      content.entries = part.entries.subspan(begin, end - begin);
      content.own = own;
      content.sibling = locked.trailer->sibling();
      std::span<std::byte> next_image;
      if (!is_last) {
        BOOST_OUTCOME_CO_TRY(allocated, co_await context_.memory.AllocateNode(
                                            op, locked.leaf().server(), NodeKind::kLeaf));
        content.sibling = allocated.pointer();
        // It is written once all are encoded.
        context_.links.Prefetch(content.sibling, 0, node_bytes);
        chain.memory.push_back(std::move(allocated));
        BOOST_OUTCOME_CO_TRY(added, chain.unseen.Add(content.sibling));
        next_image = added;
      }
      const uint64_t hint = packer.Encode(image, leaf, content);
      if (leaf == locked.leaf()) {
        chain.first_hint = hint;
      } else {
        chain.hints.push_back(hint);
      }
      if (is_last) co_return Ok();
      chain.downlinks.push_back({content.high.key, content.sibling});
      plan.Placed(content.entries);
      begin = end;
      low = content.high.key;
      leaf = content.sibling;
      image = next_image;
    }
  }
  co_return Ok();
}

Task<Status> LeafSplitter::Split(Op& op, LockedLeaf& locked, LeafPacker& packer,
                                 std::span<const Part> parts) {
  assert(!parts.empty() && !parts.front().entries.empty() &&
         locked.path.low <= parts.front().entries.front().key &&
         parts.back().high == locked.unit(0).high());
  std::vector<Plan> plans;
  size_t expected = 0;
  KeyView low = locked.path.low;
  for (const Part& part : parts) {
    plans.emplace_back(packer, low, part);
    // A chain of one leaf would be no split.
    if (parts.size() == 1) plans.back().leaves = std::max<size_t>(2, plans.back().leaves);
    expected += plans.back().leaves;
    low = part.high.key;
  }
  // It is read once the leaves are encoded.
  if (locked.path.has_parent()) {
    context_.links.Prefetch(locked.path.parent, 0, context_.geometry().node_bytes());
  }
  Chain chain(context_, expected);
  const Status built = co_await Build(op, locked, packer, parts, plans, chain);
  if (!built) co_return co_await locked.lock.ReleaseAfter(built.error());
  // In this order they may fit into one leaf after all.
  if (!chain.downlinks.empty()) op.kind = OperationClass::kInsertSplit;
  co_return co_await Commit(op, locked, chain);
}

// Its WRITEs as CommitTogether or CommitBehindOthers; then 1 RT: WRITE the parent, release.
Task<Status> LeafSplitter::Commit(Op& op, LockedLeaf& locked, Chain& chain) {
  for (Allocated<RemotePtr>& one : chain.memory) {
    locked.lock.linked().Add(one.stamp());
    one.Posted();
  }
  LockedParent parent(context_.locks, op);
  const bool are_two_here =
      chain.memory.size() == 1 && chain.memory[0].pointer().server() == locked.leaf().server();
  Status committed = Ok();
  if (are_two_here) {
    committed = co_await CommitTogether(op, locked, chain, parent);
  } else {
    committed = co_await CommitBehindOthers(op, locked, chain, parent);
  }
  if (!committed) co_return committed;
  for (Allocated<RemotePtr>& one : chain.memory) one.Linked();
  const auto learn_hints = [&] {
    context_.cache.ReplaceHint(locked.path.low, locked.leaf(), chain.first_hint);
    context_.cache.ReplaceHints(chain.downlinks, chain.hints);
  };
  const bool is_ahead = locked.path.has_parent() && !chain.downlinks.empty() &&
                        chain.downlinks.size() <= kMostCachedAhead;
  if (is_ahead) {
    context_.cache.InsertChildren(op.began.flushes, locked.path.parent, chain.downlinks);
    learn_hints();
  }
  // Before waiting for a turn at the parent (rule W5). Half or more of the waiters belong to other
  // leaves now.
  if (rules::LeavesBeforeWaiting()) locked.lock.turn().Disband();

  // The split stands, and the writes have succeeded. Downlinks that cannot be made now (no memory,
  // a lock that stays taken) are made by the next hop to the sibling (rule W6). With the leaves
  // that were cached in advance, nobody here would hop.
  Status linked = Ok();
  if (!chain.downlinks.empty()) {
    linked = co_await parents_.Insert(op, 1, chain.downlinks, std::move(parent));
  }
  if (is_ahead && !linked) context_.cache.Forget(1, locked.path.low, locked.path.parent);
  if (!is_ahead && locked.path.has_parent()) learn_hints();
  co_return Ok();
}

// One queue pair: WRITE before WRITE before atomic before atomic before READ (O1-O4): WRITE
// sibling, WRITE leaf, release, and the parent's lock and READs. Cost: 1 RT.
Task<Status> LeafSplitter::CommitTogether(Op& op, LockedLeaf& locked, Chain& chain,
                                          LockedParent& parent) {
  const RemotePtr leaf = locked.leaf();
  const RemotePtr sibling = chain.downlinks.front().pointer;
  RemoteLock& lock = locked.lock;
  InlineBatch<6> batch(leaf.server());
  chain.unseen.AddWrites(batch);
  batch.Add(Verb::Write(leaf.offset(), context_.geometry().node_bytes(), chain.first.address()));
  bool fused = co_await parents_.TryPrepare(op, locked.path, locked.lock.place(), parent);
  if (fused) {
    BOOST_OUTCOME_CO_TRYV(co_await lock.EnterEpoch());
    fused = MayReadAlong(context_.links, op, parent) && lock.MayLink();
  }
  if (!fused) {
    parent = LockedParent(context_.locks, op);
    co_return co_await lock.Commit(batch, RemoteLock::After::kRelease, VersionOf(locked));
  }
  lock.AddEnd(batch, 0, RemoteLock::After::kRelease);
  InlineBatch<3> elsewhere(parent.lock.server());
  Batch& lookup = elsewhere.server() == leaf.server() ? static_cast<Batch&>(batch) : elsewhere;
  std::array<Verb, 3> reads;
  const uint32_t read_count = parents_.AddReads(parent, 1, sibling, false, reads);
  RemoteLock::Taking taking;
  parent.lock.AddTaking(lookup, {reads.data(), read_count}, taking);
  Batch* const batches[] = {&batch, &elsewhere};
  co_await context_.links.ExecuteAll(op, batches);

  // The leaf first: its turn is kept until the commit's result is known (rule U2).
  const Status committed = co_await lock.FinishCommit(batch, VersionOf(locked));
  // Then the parent's lock, likewise.
  static_cast<void>(
      co_await parent.lock.FinishTaking(taking, lookup));  // its memory server is gone
  parent.is_tried = lookup.status() == VerbStatus::kSuccess;
  if (parent.lock.is_held() && (!committed || !parent.is_tried)) {
    const Status released = co_await parent.lock.Release();
    if (committed && !released) parent = LockedParent(context_.locks, op);
  }
  co_return committed;
}

// Queue pairs are unordered (N3): the WRITEs of leaves on another server are acknowledged before
// the leaf is posted (rule W1). 1 RT: WRITE the others, and the parent's lock and READ. 1 RT: WRITE
// the leaf, release.
Task<Status> LeafSplitter::CommitBehindOthers(Op& op, LockedLeaf& locked, Chain& chain,
                                              LockedParent& parent) {
  Status written = Ok();
  if (!chain.downlinks.empty()) written = co_await WriteOthers(op, locked, chain, parent);
  if (!written) co_return co_await locked.lock.ReleaseAfter(written.error());
  const RemotePtr leaf = locked.leaf();
  InlineBatch<2> batch(leaf.server());
  batch.Add(Verb::Write(leaf.offset(), context_.geometry().node_bytes(), chain.first.address()));
  const Status committed =
      co_await locked.lock.Commit(batch, RemoteLock::After::kRelease, VersionOf(locked));
  if (!committed && parent.lock.is_held()) {
    static_cast<void>(co_await parent.lock.Release());  // the leaf's error is returned
  }
  co_return committed;
}

// Cost: 1 RT.
Task<Status> LeafSplitter::WriteOthers(Op& op, const LockedLeaf& locked, Chain& chain,
                                       LockedParent& parent) {
  bool fused = co_await parents_.TryPrepare(op, locked.path, locked.lock.place(), parent);
  fused = fused && MayReadAlong(context_.links, op, parent);
  if (fused) {
    std::vector<Batch*> batches;
    chain.unseen.AppendUnwritten(batches);
    InlineBatch<2> lookup(parent.lock.server());
    const Verb read = parents_.ReadParent(parent);
    RemoteLock::Taking taking;
    parent.lock.AddTaking(lookup, {&read, 1}, taking);
    batches.push_back(&lookup);
    co_await context_.links.ExecuteAll(op, batches);
    static_cast<void>(
        co_await parent.lock.FinishTaking(taking, lookup));  // its memory server is gone
    parent.is_tried = lookup.status() == VerbStatus::kSuccess;
    parent.is_before_child = parent.is_tried && parent.lock.is_held();
  }
  // Also if it is unknown whether a leaf was written.
  const bool gives_up = !parent.is_tried || !chain.unseen.are_written();
  if (gives_up) {
    if (parent.lock.is_held()) {
      static_cast<void>(co_await parent.lock.Release());  // no downlink was made
    }
    parent = LockedParent(context_.locks, op);
  }
  co_return co_await chain.unseen.WriteRest(op);
}

}  // namespace gossamer
