// Merger where a merge of leaves was not finished: has the left one take over the entries of the
// right one, or undoes the merge.
#include <utility>

#include "compute/rules/rules.h"
#include "compute/tree/shape/check_child.h"
#include "compute/tree/shape/merger.h"

namespace gossamer {

Task<Status> Merger::Absorb(Op& op, const Key& key) {
  LeafWrite sought;  // Writes nothing: names the key.
  sought.SetKey(key, context_.geometry());
  LeafJob job(context_.locks, op, {&sought, 1});
  job.is_whole = true;
  BOOST_OUTCOME_CO_TRYV(co_await leaves_.Lock(op, job, false, nullptr));
  co_return co_await TakeOver(op, job.locked);
}

// 1 RT to read the sibling, 1 RT to write the leaf; more if the merge is undone.
Task<Status> Merger::TakeOver(Op& op, LockedLeaf& locked) {
  const HighFence high = locked.unit(0).high();
  const RemotePtr right = locked.trailer->sibling();
  if (right.is_null() || !context_.links.Reaches(right, node_bytes())) {
    BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Release());
    if (right.is_null()) co_return Ok();
    co_return co_await context_.links.ConnectFor(right, node_bytes());
  }
  Result<BufferLease> buffers = context_.links.Buffer(LockedBuffers::Bytes(2 * node_bytes()));
  if (!buffers) co_return co_await LeafLocker::ReleaseAfter(locked, buffers.error());
  {
    InlineBatch<2> batch(right.server());
    const LocalAddress word = buffers.value().address(LockedBuffers::kLockWord);
    batch.Add(ReadLockOf(context_, right, word));
    batch.Add(
        Verb::Read(right.offset(), node_bytes(), buffers.value().address(LockedBuffers::kImage)));
    const Status read = co_await locked.lock.Read(batch);
    if (!read) co_return co_await LeafLocker::ReleaseAfter(locked, read.error());
    // A client that has lost the lock of the left neighbour, which may have split since, may still
    // be making the right one live (W12).
    if (!rules::MayTakeOver(IsBeingMerged(word))) co_return co_await locked.lock.Release();
  }
  NodeUnion both(context_.geometry());
  const Neighbours nodes{RemotePtr(), 0, locked.leaf(), locked.path.low, right, high.key};
  const std::span<const std::byte> left(locked.image().data, node_bytes());
  const std::span<std::byte> image(buffers.value().data() + LockedBuffers::kImage,
                                   2 * size_t{node_bytes()});
  const bool is_frozen =
      both.Combine(nodes, left, image.first(node_bytes()), NodeUnion::Right::kFrozen);
  if (!is_frozen) co_return co_await locked.lock.Release();
  uint64_t hint = 0;
  if (!both.Encode(image.last(node_bytes()), hint)) {
    co_return co_await Undo(op, locked, nodes, buffers.value());
  }
  InlineBatch<2> batch(locked.leaf().server());
  batch.Add(Verb::Write(locked.leaf().offset(), node_bytes(),
                        buffers.value().address(LockedBuffers::kImage + node_bytes())));
  BOOST_OUTCOME_CO_TRYV(co_await locked.lock.Commit(
      batch, RemoteLock::After::kRelease,
      RemoteLock::NewVersion{nodes.left, 0, Next(both.version()), nodes.low}));
  if (locked.path.has_parent()) context_.cache.ReplaceHint(nodes.low, nodes.left, hint);
  context_.memory.FreeNode(op, right);
  co_return Ok();
}

// 1 RT for the right leaf's lock, 1 RT to see that the left one is locked, 1 RT to write, 1 RT to
// release.
Task<Status> Merger::Undo(Op& op, LockedLeaf& left, const Neighbours& nodes, BufferLease& buffers) {
  const LocalAddress image_at = buffers.address(LockedBuffers::kImage);
  const std::span<std::byte> image(image_at.data, node_bytes());
  RemoteLock own(context_.locks, op);
  own.UseWords(buffers.address(LockedBuffers::kLockWord),
               buffers.address(LockedBuffers::kUnlockWord));
  const Status known = co_await own.AimAt(nodes.right);
  if (!known) co_return co_await LeafLocker::ReleaseAfter(left, known.error());
  const bool is_shared = own.place() == left.lock.place();
  Status status = Ok();
  if (!is_shared) {
    own.MarkAsMerge();
    if (!own.TryTakeTurn() && !own.TryShareTurn(left.lock)) co_return co_await left.lock.Release();
    const Verb read = Verb::Read(nodes.right.offset(), node_bytes(), image_at);
    const Result<RemoteLock::Attempt> tried = co_await own.Try({&read, 1});
    if (!tried) co_return co_await LeafLocker::ReleaseAfter(left, tried.error());
    if (tried.value() == RemoteLock::Attempt::kRefused) co_return co_await left.lock.Release();
    if (nodes.right.server() != nodes.left.server()) {
      // With its lease, the left leaf's lock would be another client's by now, which may not have
      // seen this one (rule W12).
      InlineBatch<1> still(nodes.left.server());
      still.Add(Verb::Read(nodes.left.offset() + context_.geometry().trailer_offset(),
                           kTrailerBytes, left.image(context_.geometry().trailer_offset())));
      status = co_await left.lock.Read(still);
    }
  }
  RemoteLock& right = is_shared ? left.lock : own;
  const std::optional<LeafView> leaf =
      LeafView::Parse(image, nodes.right, context_.geometry(), nodes.separator);
  if (status && leaf && leaf->frozen()) {
    const NodeVersion version = Next(leaf->version());
    SetFrozen(image, nodes.right, context_.geometry(), nodes.separator, false);
    InlineBatch<2> batch(nodes.right.server());
    batch.Add(Verb::Write(nodes.right.offset(), node_bytes(), image_at));
    status =
        co_await right.Commit(batch, RemoteLock::After::kRelease,
                              RemoteLock::NewVersion{nodes.right, 0, version, nodes.separator});
  }
  if (own.is_held()) {
    const Status released = co_await own.Release();
    static_cast<void>(released);  // nothing rests on what was read
  }
  if (!left.lock.is_held()) co_return status;
  if (!status) co_return co_await LeafLocker::ReleaseAfter(left, status.error());
  co_return co_await left.lock.Release();
}

}  // namespace gossamer
