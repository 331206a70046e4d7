// Merger where a merge of leaves was not finished: has the left one take over the entries of the right one.
#include <array>

#include "compute/tree/merger.h"

namespace gossamer {

Task<Status> Merger::Absorb(Op& op, const Key& key) {
  LeafWish sought;  // Writes nothing: names the key.
  sought.write.entry.key = key;
  sought.write.hash = KeyHash(key);
  sought.write.unit = context_.geometry().GroupOf(sought.write.hash);
  sought.is_whole = true;
  LockedLeaf locked(context_.locks, op);
  const Result<LeafLocker::Outcome> outcome =
      co_await leaves_.Lock(op, sought, false, nullptr, locked);
  if (!outcome) co_return outcome.error();
  co_return co_await TakeOver(op, locked);
}

// 1 RT to read the sibling, 1 RT to write the leaf; more if it is split.
Task<Status> Merger::TakeOver(Op& op, LockedLeaf& locked) {
  const HighFence high = locked.unit(0).high();
  const RemotePtr right = locked.trailer->sibling();
  if (right.is_null() || !context_.links.Reaches(right, node_bytes())) {
    BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Release());
    if (right.is_null()) co_return Ok();
    co_return co_await context_.links.ConnectFor(right, node_bytes());
  }
  Result<BufferLease> images = context_.links.Buffer(2 * size_t{node_bytes()});
  if (!images) co_return co_await LeafLocker::ReleaseAfter(locked, images.error());
  {
    InlineBatch<1> batch(right.server());
    batch.Add(Verb::Read(right.offset(), node_bytes(), images.value().address()));
    const Status read = co_await locked.lock.Read(batch);
    if (!read) co_return co_await LeafLocker::ReleaseAfter(locked, read.error());
  }
  NodeUnion both(context_.geometry());
  const Neighbours nodes{0, locked.leaf(), locked.path.low, right, high.key};
  const std::span<const std::byte> left(locked.image().data, node_bytes());
  const bool is_frozen =
      both.Combine(nodes, left, {images.value().data(), node_bytes()}, NodeUnion::Right::kFrozen);
  if (!is_frozen) co_return co_await locked.lock.Release();
  const std::span<std::byte> out(images.value().data() + node_bytes(), node_bytes());
  uint64_t hint = 0;
  if (both.Encode(out, hint)) {
    InlineBatch<2> batch(locked.leaf().server());
    batch.Add(
        Verb::Write(locked.leaf().offset(), node_bytes(), images.value().address(node_bytes())));
    BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Commit(
        batch, RemoteLock::After::kRelease,
        RemoteLock::NewVersion{nodes.left, 0, Next(both.version()), nodes.low}));
    if (locked.path.has_parent()) context_.cache.ReplaceHint(nodes.low, nodes.left, hint);
  } else {
    const Status known = co_await both.ReadLongKeys(op, context_.blocks);
    if (!known) co_return co_await LeafLocker::ReleaseAfter(locked, known.error());
    const auto [below, above] = both.Sort();
    const std::array<ManyWaySplitter::Part, 2> parts{{{below, high}, {above, both.high()}}};
    BOOST_OUTCOME_CO_TRYV(
        co_await splitter_.Split(op, locked, both.packer(), parts, both.sibling(),
                                 {ManyWaySplitter::kUsualFill, ManyWaySplitter::Rest::kToAll}));
  }
  context_.memory.FreeNode(op, right);
  co_return Ok();
}

}  // namespace gossamer
