#include "compute/tree/many_way_split.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// More new leaves than this are not added to the cached parent in advance. They usually split the parent, and the copy
// that has them would soon be thrown away.
constexpr size_t kMostCachedAhead = 4;
// For an estimate of what fits into a leaf.
constexpr size_t kUsualFenceBytes = 8;
// How much of its room a leaf holds at least, nearly always: entries do not fill units evenly.
constexpr double kUsualPacking = 0.88;

}  // namespace

ManyWaySplitter::Plan::Plan(const LeafPacker& packer, KeyView low, const Part& part, Fill fill)
    : prefix_bytes(Bounds::Of(low, part.high).prefix.size()), rest(fill.rest) {
  double most = fill.part * static_cast<double>(packer.Capacity(kUsualFenceBytes));
  if (rest == Rest::kToFirst && !part.entries.empty()) {
    prefix_bytes = CommonBytes(part.entries.front().key, part.entries.back().key);
    most *= kUsualPacking;
  }
  bytes = LeafPacker::BytesOf(part.entries, prefix_bytes);
  room = std::max<size_t>(1, static_cast<size_t>(most));
  leaves = (bytes + room - 1) / room;
}

LeafPacker::Most ManyWaySplitter::Plan::most() const {
  switch (rest) {
    case Rest::kToLast: break;
    case Rest::kToFirst: return {bytes - std::min(bytes, (leaves - 1) * room) + 1, prefix_bytes};
    case Rest::kToAll: return {bytes / std::max<size_t>(leaves, 1) + 1, prefix_bytes};
  }
  return {room, {}};
}

void ManyWaySplitter::Plan::Placed(std::span<const Entry> entries) {
  bytes -= LeafPacker::BytesOf(entries, prefix_bytes);
  if (leaves > 1) --leaves;
  if (rest == Rest::kToFirst) rest = Rest::kToAll;
}

Task<Status> ManyWaySplitter::Build(Op& op, const LockedLeaf& locked, LeafPacker& packer,
                                    std::span<const Part> parts, std::span<Plan> plans,
                                    RemotePtr sibling, Chain& chain) {
  const uint32_t node_bytes = context_.geometry().node_bytes();
  Result<BufferLease> first = context_.links.Buffer(node_bytes);
  if (!first) co_return first.error();
  chain.first = std::move(first.value());

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
      content.sibling = sibling;
      std::span<std::byte> next_image;
      if (!is_last) {
        Result<Allocated<RemotePtr>> allocated =
            co_await context_.memory.AllocateNode(op, locked.leaf().server(), NodeKind::kLeaf);
        if (!allocated) co_return allocated.error();
        content.sibling = allocated.value().pointer();
        // It is written once all are encoded.
        context_.links.Prefetch(content.sibling, 0, node_bytes);
        chain.memory.push_back(std::move(allocated.value()));
        const Result<std::span<std::byte>> added = chain.unseen.Add(content.sibling);
        if (!added) co_return added.error();
        next_image = added.value();
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

// 1 RT: WRITE the new leaves, and the parent's lock and READ. 1 RT: WRITE the leaf, release. 1 RT: WRITE the parent,
// release.
Task<Status> ManyWaySplitter::Split(Op& op, LockedLeaf& locked, LeafPacker& packer,
                                    std::span<const Part> parts, RemotePtr sibling, Fill fill) {
  std::vector<Plan> plans;
  size_t expected = 0;
  KeyView low = locked.path.low;
  for (const Part& part : parts) {
    plans.emplace_back(packer, low, part, fill);
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
  const Status built = co_await Build(op, locked, packer, parts, plans, sibling, chain);
  if (!built) co_return co_await LeafLocker::ReleaseAfter(locked, built.error());
  // In this order they may fit into one leaf after all.
  const bool is_split = !chain.downlinks.empty();
  if (is_split) op.kind = OperationClass::kInsertSplit;
  for (Allocated<RemotePtr>& one : chain.memory) {
    locked.lock.linked().Add(one.stamp());
    one.Posted();
  }
  LockedParent parent(context_.locks, op);
  Status written = Ok();
  if (is_split) written = co_await WriteUnseen(op, locked, chain, parent);
  if (!written) co_return co_await LeafLocker::ReleaseAfter(locked, written.error());

  const RemotePtr leaf = locked.leaf();
  InlineBatch<2> batch(leaf.server());
  batch.Add(Verb::Write(leaf.offset(), context_.geometry().node_bytes(), chain.first.address()));
  const NodeVersion version = Next(locked.unit(0).version());
  const Status committed =
      co_await locked.lock.Commit(batch, RemoteLock::After::kRelease,
                                  RemoteLock::NewVersion{leaf, 0, version, locked.path.low});
  if (!committed) {
    if (parent.lock.is_held()) {
      const Status released = co_await parent.lock.Release();
      static_cast<void>(released);  // the leaf's error is returned
    }
    co_return committed;
  }
  for (Allocated<RemotePtr>& one : chain.memory) one.Linked();
  const RemotePtr parent_node = locked.path.parent;
  if (!parent_node.is_null() && is_split && chain.downlinks.size() <= kMostCachedAhead) {
    context_.cache.InsertChildren(op.began.flushes, parent_node, chain.downlinks);
  }
  // Before waiting for a turn at the parent (rule W5). Most waiters belong to other leaves now.
  if (rules::LeavesBeforeWaiting()) locked.lock.turn().Disband();

  // The split stands, and the writes have succeeded. Downlinks that cannot be made now are made by the next hop (rule
  // W6).
  if (is_split) {
    const Status linked = co_await parents_.Insert(op, 1, chain.downlinks, std::move(parent));
    static_cast<void>(linked);
  }
  context_.cache.ReplaceHint(locked.path.low, locked.leaf(), chain.first_hint);
  context_.cache.ReplaceHints(chain.downlinks, chain.hints);
  co_return Ok();
}

// Cost: 1 RT.
Task<Status> ManyWaySplitter::WriteUnseen(Op& op, const LockedLeaf& locked, Chain& chain,
                                          LockedParent& parent) {
  bool fused = co_await parents_.TryPrepare(op, locked.path, locked.lock.place(), parent);
  // Meanwhile another coroutine may have lost the parent's server.
  fused = fused && context_.links.LeaseWith(parent.lock.server()).incarnation != 0;
  if (fused) {
    std::vector<Batch*> batches;
    chain.unseen.AppendUnwritten(batches);
    InlineBatch<2> lookup(parent.lock.server());
    const Verb read = parents_.ReadParent(parent);
    RemoteLock::Taking taking;
    parent.lock.AddTaking(lookup, {&read, 1}, taking);
    batches.push_back(&lookup);
    co_await context_.links.ExecuteAll(op, batches);
    const Status found = co_await parent.lock.FinishTaking(taking, lookup);
    static_cast<void>(found);  // its memory server is gone
    parent.is_tried = lookup.status() == VerbStatus::kSuccess;
    parent.is_before_child = parent.is_tried && parent.lock.is_held();
  }
  // Also if it is unknown whether a leaf was written.
  const bool gives_up = !parent.is_tried || !chain.unseen.are_written();
  if (gives_up) {
    if (parent.lock.is_held()) {
      const Status released = co_await parent.lock.Release();
      static_cast<void>(released);  // no downlink was made
    }
    parent = LockedParent(context_.locks, op);
  }
  co_return co_await chain.unseen.WriteRest(op);
}

}  // namespace gossamer
