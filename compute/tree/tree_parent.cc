// Parents: downlinks for nodes that a split made reachable, splits of internal nodes, new roots, and repairs.
//
// None of this is needed for correctness (rule W6): until a downlink exists, the left neighbour's sibling pointer
// leads to the node.
#include <algorithm>

#include "compute/tree/tree.h"

namespace gossamer {
namespace {

// A separator whose node cannot be found after so many hops and fresh descents.
constexpr uint32_t kMaxMoves = 1000;
// An internal node that cannot be read through so many fresh descents is corrupt (rule R5).
constexpr uint32_t kMaxFailures = 4;
// A child put behind all but this fraction of the last node is taken for part of an ascending load.
constexpr size_t kEdgeFraction = 8;

// Cuts `node`, which does not fit into `node_bytes`, in two: what is returned goes to the right of it. In the
// middle by bytes; with `at_end`, as far right as the left half fits with its new fence.
InternalNode SplitInternal(InternalNode& node, RemotePtr right_pointer, bool at_end,
                           uint32_t node_bytes) {
  const std::vector<InternalNode::Child> children = std::move(node.children);
  size_t total = 0;
  for (const InternalNode::Child& child : children) total += child.separator.size() + 9;
  size_t middle = 1;
  for (size_t bytes = children[0].separator.size() + 9;
       middle + 1 < children.size() && (at_end || bytes < total / 2); ++middle) {
    bytes += children[middle].separator.size() + 9;
  }
  InternalNode right;
  right.version = node.version;
  right.level = node.level;
  right.high = node.high;
  right.sibling = node.sibling;
  node.sibling = right_pointer;
  for (;; --middle) {
    const auto cut = children.begin() + static_cast<ptrdiff_t>(middle);
    node.children.assign(children.begin(), cut);
    node.high = HighFence::At(cut->separator);
    if (EncodedBytes(node) <= node_bytes) {
      right.children.assign(cut, children.end());
      return right;
    }
  }
}

}  // namespace

// 2 RT for each level that changes.
Task<Status> Tree::InsertIntoParent(Operation& operation, uint32_t level, Key separator,
                                    RemotePtr child) {
  BOOST_OUTCOME_CO_TRYV(CheckPointer(child, shared_.parameters.node_bytes));
  for (;;) {
    RootWord root = shared_.cache.root();
    if (root.word() == 0 || root.level() < level) {
      const Result<RootWord> read = co_await ReadRoot(operation);
      if (!read) co_return read.error();
      root = read.value();
    }
    if (root.level() < level) {
      const Result<bool> raised = co_await RaiseRoot(operation, root, separator, child);
      if (!raised) co_return raised.error();
      if (raised.value()) co_return Ok();
      continue;
    }

    Result<LockedParent> lock = co_await LockParent(operation, level, separator, child);
    if (!lock) co_return lock.error();
    LockedParent& parent = lock.value();
    InternalNode& node = parent.node;
    const size_t index = node.ChildIndex(separator);
    if (node.children[index].separator == separator || !parent.child_is_there) {
      // Somebody else was quicker, or the child has gone.
      const Status unlocked = co_await Unlock(operation, parent);
      BOOST_OUTCOME_CO_TRYV(unlocked);
      shared_.cache.Insert(parent.pointer, node);
      co_return Ok();
    }
    node.version = Next(node.version);
    node.children.insert(node.children.begin() + static_cast<ptrdiff_t>(index) + 1,
                         {separator, child});

    std::optional<InternalNode> right;
    RemotePtr right_pointer;
    if (EncodedBytes(node) > shared_.parameters.node_bytes) {
      const Result<RemotePtr> allocated = co_await shared_.allocator.AllocateNode(
          scheduler_, parent.pointer.server(), operation.wire);
      if (!allocated) {
        const Status unlocked = co_await Unlock(operation, parent);
        BOOST_OUTCOME_CO_TRYV(unlocked);
        co_return allocated.error();
      }
      right_pointer = allocated.value();
      // At the right edge of the tree, behind a new maximum: ascending loads fill nodes.
      const size_t above = node.children.size() - index - 2;
      const bool at_end = node.high.infinite && above <= node.children.size() / kEdgeFraction;
      right = SplitInternal(node, right_pointer, at_end, shared_.parameters.node_bytes);
    }
    const Status written = co_await WriteParent(operation, parent, right, right_pointer);
    BOOST_OUTCOME_CO_TRYV(written);
    shared_.cache.Insert(parent.pointer, node);
    if (!right) co_return Ok();
    shared_.cache.Insert(right_pointer, *right);
    child = right_pointer;
    separator = Key(right->low());
    ++level;
  }
}

// 1 RT, plus 1 RT for each hop, and 1 RT when parent and child are on different servers.
Task<Result<Tree::LockedParent>> Tree::LockParent(Operation& operation, uint32_t level,
                                                  const Key& separator, RemotePtr child) {
  const uint32_t bytes = shared_.parameters.node_bytes;
  Result<BufferLease> lease = Buffer(2 * size_t{bytes} + BufferPool::kMinBytes);
  if (!lease) co_return lease.error();
  LockedParent locked;
  locked.buffer = std::move(lease.value());
  const BufferLease& buffer = locked.buffer;
  const LocalAddress child_at = buffer.address(bytes);
  const LocalAddress word_at = buffer.address(2 * size_t{bytes});
  const auto since = scheduler_.Now();
  std::optional<RemotePtr> sibling;
  uint32_t moves = 0;
  uint32_t failures = 0;
  // The child's low fence: in a leaf's trailer, or in the whole of an internal node.
  const LeafGeometry& geometry = shared_.geometry;
  const Verb read_child =
      level == 1 ? Verb::Read(child.offset() + geometry.trailer_offset(), kTrailerBytes, child_at)
                 : Verb::Read(child.offset(), bytes, child_at);
  const auto child_matches = [&] {
    if (level == 1) {
      const std::optional<TrailerView> trailer =
          TrailerView::Parse({child_at.data, kTrailerBytes}, child, geometry);
      return trailer && trailer->low().Matches(separator);
    }
    const std::optional<InternalNode> node = DecodeInternal({child_at.data, bytes}, child);
    return node && node->low() == separator.view();
  };

  for (uint32_t attempt = 0;; ++attempt) {
    if (sibling) {
      locked.pointer = *sibling;
    } else {
      const Result<Step> path = co_await Descend(operation, SearchGoal::Covering(separator), level);
      if (!path) co_return path.error();
      locked.pointer = path.value().node;
    }
    const Result<LockWord> word = WordFor(locked.pointer, locked.slot);
    if (!word) co_return word.error();
    locked.word = word.value();
    if (!queue_.IsAt(locked.turn, locked.pointer.server(), locked.slot)) {
      locked.turn.GiveUp();
      if (operation.is_repair && queue_.IsTaken(locked.pointer.server(), locked.slot)) {
        co_return MakeError(
            Code::kContended);  // Nobody waits for a repair; the next hop tries again.
      }
      locked.turn = co_await queue_.Wait(locked.pointer.server(), locked.slot);
      if (!locked.turn) continue;
    }
    InlineBatch<3> batch(locked.pointer.server());
    batch.Add(Verb::CompareSwap(Space::kLockTable, locked.slot, 0, locked.word.word(), word_at));
    batch.Add(Verb::Read(locked.pointer.offset(), bytes, buffer.address()));
    if (child.server() == locked.pointer.server()) batch.Add(read_child);
    co_await Execute(operation, batch);
    if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
    const uint64_t holder = batch.verbs()[0].old_value();
    if (holder != 0) {
      const Status waited = co_await BackOff(operation, locked.pointer, holder, attempt, since);
      if (!waited) co_return waited.error();
      continue;
    }
    ++counters_.locks.acquired;

    std::optional<InternalNode> node = DecodeInternal({buffer.data(), bytes}, locked.pointer);
    const bool covers = node && node->level == level && node->low() <= separator.view();
    if (covers && node->high.Admits(separator)) {
      if (child.server() != locked.pointer.server()) {
        // Behind the lock's CAS: from here on the child can only go with this parent's lock (rule W4).
        InlineBatch<1> remote(child.server());
        remote.Add(read_child);
        co_await Execute(operation, remote);
        if (remote.status() != VerbStatus::kSuccess) {
          const Status unlocked = co_await Unlock(operation, locked);
          if (!unlocked) co_return unlocked.error();
          co_return Unreachable(remote);
        }
      }
      locked.child_is_there = child_matches();
      locked.node = std::move(*node);
      co_return std::move(locked);
    }
    // Split since it was cached: go right, one lock at a time. Unreadable: descend again (rule R5).
    const Status unlocked = co_await Unlock(operation, locked);
    if (!unlocked) co_return unlocked.error();
    sibling.reset();
    if (covers) {
      shared_.cache.Insert(locked.pointer, *node);
      sibling = node->sibling;
    } else {
      if (++failures == kMaxFailures) {
        co_return CorruptNode(locked.pointer,
                              "an internal node that fails its checks under its lock");
      }
      shared_.cache.Invalidate(locked.pointer);
      const Result<RootWord> root = co_await ReadRoot(operation);
      if (!root) co_return root.error();
    }
    if (++moves == kMaxMoves) {
      co_return CorruptNode(locked.pointer, "an internal node that does not lead to its range");
    }
  }
}

Task<Status> Tree::Unlock(Operation& operation, const LockedParent& locked) {
  return Unlock(operation, locked.pointer, locked.word, locked.slot,
                locked.buffer.address(2 * size_t{shared_.parameters.node_bytes}));
}

// 1 RT; 2 RT with the right half on another server (rules W1, W2).
Task<Status> Tree::WriteParent(Operation& operation, const LockedParent& locked,
                               std::optional<InternalNode>& right, RemotePtr right_pointer) {
  const uint32_t bytes = shared_.parameters.node_bytes;
  const BufferLease& buffer = locked.buffer;
  bool fits = EncodeInternal({buffer.data(), bytes}, locked.pointer, locked.node);
  if (right) fits = fits && EncodeInternal({buffer.data() + bytes, bytes}, right_pointer, *right);
  if (!fits) {
    BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, locked));
    co_return CorruptNode(locked.pointer, "an internal node whose halves do not fit");
  }
  InlineBatch<3> batch(locked.pointer.server());
  if (right) {
    const Verb write = Verb::Write(right_pointer.offset(), bytes, buffer.address(bytes));
    if (right_pointer.server() == locked.pointer.server()) {
      batch.Add(write);
    } else {
      InlineBatch<1> remote(right_pointer.server());
      remote.Add(write);
      co_await Execute(operation, remote);
      if (remote.status() != VerbStatus::kSuccess) {
        BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, locked));
        co_return Unreachable(remote);
      }
    }
  }
  batch.Add(Verb::Write(locked.pointer.offset(), bytes, buffer.address()));
  batch.Add(Verb::CompareSwap(Space::kLockTable, locked.slot, locked.word.word(), 0,
                              buffer.address(2 * size_t{bytes})));
  co_await Execute(operation, batch);
  co_return CommitStatus(batch, locked.word);
}

// 2 RT: WRITE the new root, acknowledged; then CAS the root word (rule R7). False: somebody else raised it.
Task<Result<bool>> Tree::RaiseRoot(Operation& operation, RootWord old_root, const Key& separator,
                                   RemotePtr child) {
  const uint32_t level = old_root.level() + 1;
  const uint32_t bytes = shared_.parameters.node_bytes;
  Result<BufferLease> lease = Buffer(bytes + BufferPool::kMinBytes);
  if (!lease) co_return lease.error();
  const Result<RemotePtr> allocated =
      co_await shared_.allocator.AllocateNode(scheduler_, ServerId{0}, operation.wire);
  if (!allocated) co_return allocated.error();
  const RemotePtr pointer = allocated.value();
  // The old root is the leftmost node of its level: it was the only one.
  InternalNode node;
  node.version = NodeVersion{1};
  node.level = static_cast<uint8_t>(level);
  node.children = {{Key(), old_root.pointer()}, {separator, child}};
  EncodeInternal({lease.value().data(), bytes}, pointer, node);
  {
    InlineBatch<1> batch(pointer.server());
    batch.Add(Verb::Write(pointer.offset(), bytes, lease.value().address()));
    co_await Execute(operation, batch);
    if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
  }
  const RootWord new_root(pointer, level);
  InlineBatch<1> batch(ServerId{0});
  batch.Add(Verb::CompareSwap(Space::kRegion, kRootWordOffset, old_root.word(), new_root.word(),
                              lease.value().address(bytes)));
  co_await Execute(operation, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
  const uint64_t found = batch.verbs()[0].old_value();
  if (found != old_root.word()) {
    shared_.allocator.ReturnNode(pointer);
    shared_.cache.SetRoot(RootWord::FromWord(found));
    co_return false;
  }
  shared_.cache.Insert(pointer, node);
  shared_.cache.SetRoot(new_root);
  co_return true;
}

// Whoever hops over a sibling sees to it that the sibling has its downlink, in the background and one at a time.
void Tree::ScheduleRepair(RemotePtr left, uint32_t level) {
  if (repairs_ != 0) return;
  ++repairs_;
  scheduler_.Spawn(Repair(left, level));
}

Task<void> Tree::Repair(RemotePtr left, uint32_t level) {
  Operation operation;
  operation.is_repair = true;
  const Status repaired = co_await RepairIn(operation, left, level);
  // A repair that fails leaves the tree as it was; the next hop tries again. Its verbs belong to splits.
  static_cast<void>(repaired);
  counters_.of(OperationClass::kInsertSplit) += operation.wire;
  --repairs_;
}

// 2 RT when there is nothing to do: the node whole (rule R3: a parent entry is kept), then its parent.
Task<Status> Tree::RepairIn(Operation& operation, RemotePtr left, uint32_t level) {
  HighFence high;
  RemotePtr sibling;
  if (level == 0) {
    const Result<BufferLease> leaf = co_await ReadLeafInto(operation, left);
    if (!leaf) co_return leaf.error();
    const std::optional<LeafView> view = LeafView::Parse(
        {leaf.value().data(), shared_.parameters.node_bytes}, left, shared_.geometry);
    high = view->high();
    sibling = view->trailer().sibling();
  } else {
    const Result<InternalNode> node = co_await ReadInternal(operation, left);
    if (!node) co_return node.error();
    high = node.value().high;
    sibling = node.value().sibling;
  }
  if (high.infinite || sibling.is_null()) co_return Ok();
  // A look without the lock: usually whoever split the node has linked it by now.
  const RootWord root = shared_.cache.root();
  if (root.level() > level) {
    const Result<Step> path = co_await Descend(operation, SearchGoal::Covering(high.key), level);
    if (!path) co_return path.error();
    if (path.value().node == sibling && !path.value().parent.is_null()) co_return Ok();
  } else {
    const Result<RootWord> read = co_await ReadRoot(operation);
    if (!read) co_return read.error();
  }
  const Status linked = co_await InsertIntoParent(operation, level + 1, high.key, sibling);
  co_return linked;
}

}  // namespace gossamer
