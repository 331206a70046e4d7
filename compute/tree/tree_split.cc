// Leaf splits: the sibling is written where nobody sees it yet, then one WRITE of the old leaf makes it reachable.
#include <algorithm>

#include "compute/tree/leaf_edit.h"
#include "compute/tree/tree.h"
#include "compute/tree/unit_buffers.h"

namespace gossamer {
namespace {

// An insert above all but this fraction of the last leaf is taken for part of an ascending load.
constexpr size_t kEdgeFraction = 8;

}  // namespace

Task<Status> Tree::UnlockAfter(Operation& operation, const LockedLeaf& locked, Error error) {
  BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, locked));
  co_return error;
}

// RT 2: READ the leaf whole. RT 3: WRITE sibling, WRITE leaf, unlock (+1 RT when the sibling is on another server).
// Then the parent: 2 RT.
Task<Status> Tree::RewriteLeaf(Operation& operation, LockedLeaf& locked, const Entry& entry,
                               bool& inserted) {
  const LeafGeometry& geometry = shared_.geometry;
  const uint32_t node_bytes = geometry.node_bytes();
  const RemotePtr leaf = locked.leaf();
  Result<BufferLease> lease = Buffer(3 * size_t{node_bytes});
  if (!lease) co_return co_await UnlockAfter(operation, locked, lease.error());
  const BufferLease& images = lease.value();
  const std::span<std::byte> old_image(images.data(), node_bytes);
  const std::span<std::byte> left(images.data() + node_bytes, node_bytes);
  const std::span<std::byte> right(images.data() + 2 * size_t{node_bytes}, node_bytes);
  {
    InlineBatch<1> batch(leaf.server());
    batch.Add(Verb::Read(leaf.offset(), node_bytes, images.address()));
    co_await Execute(operation, batch);
    if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
  }
  const std::optional<LeafView> view = LeafView::Parse(old_image, leaf, geometry);
  if (!view || !view->trailer().low().Matches(locked.path.low)) {
    co_return co_await UnlockAfter(
        operation, locked, CorruptNode(leaf, "a leaf that fails its checks under its lock"));
  }

  std::vector<Entry> old_entries;
  view->AppendTo(old_entries);
  std::vector<Entry> entries = old_entries;
  std::erase_if(entries, [&entry](const Entry& old) { return old.key == entry.key; });
  const auto greater = static_cast<size_t>(std::count_if(
      entries.begin(), entries.end(), [&entry](const Entry& old) { return old.key > entry.key; }));
  entries.push_back(entry);
  LeafRewrite rewrite{leaf,
                      RemotePtr(),
                      locked.path.low,
                      Next(view->version()),
                      view->high(),
                      view->trailer().sibling()};

  // Deletes, or a shorter entry elsewhere, may have made room that only a new arrangement can use.
  uint64_t hint = 0;
  const LeafContent in_place{rewrite.version, rewrite.low, rewrite.high, rewrite.old_sibling,
                             entries};
  if (EncodeLeaf(left, leaf, geometry, in_place, &hint)) {
    const Status committed = co_await CommitLeaf(operation, locked, images.address(node_bytes),
                                                 RemotePtr(), LocalAddress());
    if (committed && !locked.path.parent.is_null()) {
      shared_.cache.ReplaceHint(reader_, locked.path.parent, entry.key, leaf, hint);
    }
    inserted = committed.has_value();
    co_return committed;
  }

  Result<RemotePtr> sibling =
      co_await shared_.allocator.AllocateNode(scheduler_, leaf.server(), operation.wire);
  if (!sibling) co_return co_await UnlockAfter(operation, locked, sibling.error());
  rewrite.sibling = sibling.value();
  // At the right edge of the tree, what is new goes alone, with the few that overtook it: ascending loads, also
  // those with many operations in flight, fill leaves.
  const bool at_edge = view->high().infinite && greater <= entries.size() / kEdgeFraction;
  std::optional<LeafSplit> split =
      EncodeSplit(rewrite, geometry, entries, at_edge ? greater + 1 : 0, left, right);
  const bool with_entry = split.has_value();
  if (!split) {
    // Longest fences and fragments may leave no room for the entry in either half; without it there is.
    if (old_entries.size() >= 2) {
      split = EncodeSplit(rewrite, geometry, old_entries, 0, left, right);
    }
  }
  if (!split) {
    shared_.allocator.ReturnNode(sibling.value());
    co_return co_await UnlockAfter(operation, locked,
                                   CorruptNode(leaf, "a leaf that cannot be split"));
  }
  if (operation.kind == OperationClass::kInsert) operation.kind = OperationClass::kInsertSplit;
  const Status committed =
      co_await CommitLeaf(operation, locked, images.address(node_bytes), sibling.value(),
                          images.address(2 * size_t{node_bytes}));
  BOOST_OUTCOME_CO_TRYV(committed);
  inserted = with_entry;
  if (!locked.path.parent.is_null()) {
    shared_.cache.InsertChild(locked.path.parent, split->separator, sibling.value(),
                              split->right_hint);
    shared_.cache.ReplaceHint(reader_, locked.path.parent, locked.path.low, leaf, split->left_hint);
  }
  // Before the parent's turn is waited for (rule W5). Half of those who wait belong to the sibling now.
  locked.turn.Disband();

  // The split stands. A parent entry that cannot be made now (no memory, a lock that stays taken) is made by
  // whoever hops over the sibling (rule W6), so that the write has succeeded all the same.
  const Status linked = co_await InsertIntoParent(operation, 1, split->separator, sibling.value());
  static_cast<void>(linked);
  co_return Ok();
}

// 1 RT: one queue pair, WRITE before WRITE before atomic. 2 RT with a sibling on another server: queue pairs are
// unordered, so its WRITE is acknowledged before the leaf is posted (rule W1). The leaf's own WRITE, at most one
// MTU, is what commits (rule W2).
Task<Status> Tree::CommitLeaf(Operation& operation, const LockedLeaf& locked, LocalAddress image,
                              RemotePtr sibling, LocalAddress sibling_image) {
  const RemotePtr leaf = locked.leaf();
  const uint32_t bytes = shared_.parameters.node_bytes;
  InlineBatch<3> batch(leaf.server());
  if (!sibling.is_null()) {
    const Verb write = Verb::Write(sibling.offset(), bytes, sibling_image);
    if (sibling.server() == leaf.server()) {
      batch.Add(write);
    } else {
      InlineBatch<1> remote(sibling.server());
      remote.Add(write);
      co_await Execute(operation, remote);
      if (remote.status() != VerbStatus::kSuccess) {
        co_return co_await UnlockAfter(operation, locked, Unreachable(remote));
      }
    }
  }
  batch.Add(Verb::Write(leaf.offset(), bytes, image));
  batch.Add(Verb::CompareSwap(Space::kLockTable, locked.slot, locked.word.word(), 0,
                              locked.buffers.address(UnitBuffers::kUnlockWord)));
  co_await Execute(operation, batch);
  co_return CommitStatus(batch, locked.word);
}

}  // namespace gossamer
