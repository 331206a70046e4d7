// Parents: downlinks for nodes that a split made reachable, splits of internal nodes, new roots, and repairs.
//
// None of this is needed for correctness (rule W6): until a downlink exists, the left neighbour's sibling pointer
// leads to the node.
#include <algorithm>
#include <array>

#include "common/mutants.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

// A separator whose node cannot be found after so many hops and fresh descents.
constexpr uint32_t kMaxMoves = 1000;

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

// 2 RT for each level that changes; 1 RT for the first, if its lock was tried already and could be had.
Task<Status> Tree::InsertIntoParent(Operation& operation, uint32_t level, Key separator,
                                    RemotePtr child, LockedParent parent) {
  for (;;) {
    if (!parent.is_tried) {
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
    }
    BOOST_OUTCOME_CO_TRYV(co_await LockParent(operation, level, separator, child, parent));
    const RemotePtr pointer = parent.lock.node;
    InternalNode& node = parent.node;
    const size_t index = node.ChildIndex(separator);
    if (node.children[index].separator == separator || !parent.child_is_there) {
      // Somebody else was quicker, or the child has gone.
      BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, parent));
      Remember(pointer, node);
      co_return Ok();
    }
    node.version = Next(node.version);
    node.children.insert(node.children.begin() + static_cast<ptrdiff_t>(index) + 1,
                         {separator, child});

    std::optional<InternalNode> right;
    Allocated<RemotePtr> right_memory;
    RemotePtr right_pointer;
    if (EncodedBytes(node) > shared_.parameters.node_bytes) {
      Result<Allocated<RemotePtr>> allocated =
          co_await AllocateNode(operation, pointer.server(), NodeKind::kInternal);
      if (!allocated) {
        BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, parent));
        co_return allocated.error();
      }
      right_memory = std::move(allocated.value());
      right_memory.Posted();
      right_pointer = right_memory.pointer();
      parent.lock.links.Add(right_memory.stamp());
      // At the right edge of the tree, behind a new maximum: ascending loads fill nodes.
      const size_t above = node.children.size() - index - 2;
      const bool at_end = node.high.infinite && above <= node.children.size() / kEdgeFraction;
      right = SplitInternal(node, right_pointer, at_end, shared_.parameters.node_bytes);
    }
    BOOST_OUTCOME_CO_TRYV(co_await WriteParent(operation, parent, right, right_pointer));
    if (!right) {
      Remember(pointer, node);
      co_return Ok();
    }
    counters_.cache.evictions += shared_.cache.InsertSplit(pointer, node, right_pointer, *right);
    child = right_pointer;
    separator = Key(right->low());
    ++level;
    parent = LockedParent();
  }
}

Status Tree::AllocateBuffers(LockedParent& parent) {
  BOOST_OUTCOME_TRY(buffers, Buffer(LockedBuffers::Bytes(2 * shared_.parameters.node_bytes)));
  parent.buffers = std::move(buffers);
  return Ok();
}

Verb Tree::ReadParent(const LockedParent& parent) const {
  return Verb::Read(parent.lock.node.offset(), shared_.parameters.node_bytes,
                    parent.buffers.address(LockedBuffers::kImage));
}

// The child's low fence: in a leaf's trailer, or in the whole of an internal node.
Verb Tree::ReadChild(const LockedParent& parent, uint32_t level, RemotePtr child) const {
  const uint32_t bytes = shared_.parameters.node_bytes;
  const LocalAddress into = parent.buffers.address(LockedBuffers::kImage + bytes);
  const uint32_t trailer = shared_.geometry.trailer_offset();
  return level == 1 ? Verb::Read(child.offset() + trailer, kTrailerBytes, into)
                    : Verb::Read(child.offset(), bytes, into);
}

bool Tree::ChildMatches(const LockedParent& parent, uint32_t level, const Key& separator,
                        RemotePtr child) const {
  const uint32_t bytes = shared_.parameters.node_bytes;
  const std::byte* image = parent.buffers.data() + LockedBuffers::kImage + bytes;
  if (level == 1) {
    const std::optional<TrailerView> trailer = ParseTrailer({image, kTrailerBytes}, child);
    return trailer && trailer->low().Matches(separator);
  }
  const std::optional<InternalNode> node = DecodeInternal({image, bytes}, child);
  return node && node->low() == separator.view();
}

uint32_t Tree::ParentReads(const LockedParent& parent, uint32_t level, RemotePtr child,
                           std::span<Verb, 2> reads) const {
  reads[0] = ReadParent(parent);
  if (child.server() != parent.lock.node.server()) return 1;
  reads[1] = ReadChild(parent, level, child);
  return 2;
}

// 1 RT, plus 1 RT for each hop, and 1 RT when parent and child are on different servers. None if the lock was had
// before the child was known.
Task<Status> Tree::LockParent(Operation& operation, uint32_t level, const Key& separator,
                              RemotePtr child, LockedParent& parent) {
  const uint32_t bytes = shared_.parameters.node_bytes;
  BOOST_OUTCOME_CO_TRYV(CheckPointer(child, bytes));
  if (!parent.buffers) {
    BOOST_OUTCOME_CO_TRYV(AllocateBuffers(parent));
  }
  const LocalAddress word_at = parent.buffers.address(LockedBuffers::kLockWord);
  NodeLock& lock = parent.lock;
  RemotePtr sibling;
  uint32_t moves = 0;
  uint32_t failures = 0;

  for (;;) {
    if (!std::exchange(parent.is_tried, false)) {
      parent.is_before_child = false;
      RemotePtr pointer = sibling;
      if (pointer.is_null()) {
        const SearchGoal goal = SearchGoal::Covering(separator);
        std::optional<Step> path = shared_.cache.Find(reader_, goal, level);
        if (!path || path->level != level) {
          lock.turn.GiveUp();  // A descent may have to take locks.
          const Result<Step> found = co_await Descend(operation, goal, level);
          if (!found) co_return found.error();
          path = found.value();
        }
        pointer = path->node;
      }
      BOOST_OUTCOME_CO_TRYV(AimAt(lock, pointer));
      if (shared_.options.techniques.hierarchical_locks &&
          !shared_.locks.IsAt(lock.turn, lock.place)) {
        lock.turn.GiveUp();
        lock.turn = shared_.locks.TryTake(lock.place, scheduler_);
        // Nobody waits for a repair; the next hop tries again.
        if (!lock.turn && operation.is_repair) co_return MakeError(Code::kContended);
        if (!lock.turn) {
          const LockTable::Answer answer = co_await TakeTurn(lock, nullptr);
          if (answer == LockTable::Answer::kLookUp) continue;
          if (answer == LockTable::Answer::kClosed) {
            BOOST_OUTCOME_CO_TRYV(co_await AwaitSettled(operation, lock));
            continue;
          }
        }
      }
      std::array<Verb, 2> reads;
      const uint32_t read_count = ParentReads(parent, level, child, reads);
      const Result<bool> taken =
          co_await TryLock(operation, lock, {reads.data(), read_count}, word_at);
      if (!taken) co_return taken.error();
    }
    if (!lock.held) {
      BOOST_OUTCOME_CO_TRYV(co_await BackOff(operation, lock));
      continue;
    }

    const std::span<const std::byte> image(parent.buffers.data() + LockedBuffers::kImage, bytes);
    std::optional<InternalNode> node = DecodeInternal(image, lock.node);
    const bool starts_before = node && node->level == level && node->low() <= separator.view();
    if (starts_before && node->high.Admits(separator)) {
      if (!parent.is_before_child && child.server() != lock.node.server()) {
        // Behind the lock's CAS: from here on the child can only go with this parent's lock (rule W4).
        InlineBatch<1> remote(child.server());
        remote.Add(ReadChild(parent, level, child));
        co_await Execute(operation, remote);
        if (remote.status() != VerbStatus::kSuccess) {
          const Error error = Unreachable(operation, remote);
          BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, parent));
          co_return error;
        }
      }
      parent.child_is_there =
          parent.is_before_child || ChildMatches(parent, level, separator, child);
      parent.node = std::move(*node);
      co_return Ok();
    }
    // Split since it was cached: go right, one lock at a time. Unreadable: descend again (rule R5).
    BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, parent));
    sibling = RemotePtr();
    if (starts_before) {
      Remember(lock.node, *node);
      sibling = node->sibling;
    } else {
      if (++failures == kMaxFailures) {
        co_return CorruptNode(lock.node, "an internal node that fails its checks under its lock");
      }
      shared_.cache.Invalidate(lock.node);
      lock.turn.GiveUp();
      const Result<RootWord> root = co_await ReadRoot(operation);
      if (!root) co_return root.error();
    }
    if (++moves == kMaxMoves) {
      co_return CorruptNode(lock.node, "an internal node that does not lead to its range");
    }
  }
}

// 1 RT; 2 RT with the right half on another server (rules W1, W2).
Task<Status> Tree::WriteParent(Operation& operation, LockedParent& parent,
                               std::optional<InternalNode>& right, RemotePtr right_pointer) {
  const uint32_t bytes = shared_.parameters.node_bytes;
  const BufferLease& buffers = parent.buffers;
  const RemotePtr pointer = parent.lock.node;
  const LocalAddress left_at = buffers.address(LockedBuffers::kImage);
  const LocalAddress right_at = left_at + bytes;
  bool fits = EncodeInternal({left_at.data, bytes}, pointer, parent.node);
  if (right) fits = fits && EncodeInternal({right_at.data, bytes}, right_pointer, *right);
  if (!fits) {
    BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, parent));
    co_return CorruptNode(pointer, "an internal node whose halves do not fit");
  }
  InlineBatch<3> batch(pointer.server());
  if (right) {
    const Verb write = Verb::Write(right_pointer.offset(), bytes, right_at);
    if (right_pointer.server() == pointer.server()) {
      batch.Add(write);
    } else {
      const Status written = co_await WriteUnseen(operation, right_pointer.server(), write);
      if (!written) {
        BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, parent));
        co_return written.error();
      }
    }
  }
  batch.Add(Verb::Write(pointer.offset(), bytes, left_at));
  // A child put in can be put in again; children cut off belong to others from then on.
  std::optional<NewVersion> changed;
  if (right) changed = {pointer, parent.node.level, parent.node.version};
  LockTable::Waiter* next = NextFor(parent.lock);
  const Status committed =
      co_await Commit(operation, parent.lock, batch, buffers.address(LockedBuffers::kUnlockWord),
                      next != nullptr ? AndThen::kKeep : AndThen::kUnlock, changed);
  if (committed && next != nullptr) HandOver(parent.lock, *next);
  co_return committed;
}

// 2 RT: WRITE the new root, acknowledged; then CAS the root word (rule R7). False: somebody else raised it.
Task<Result<bool>> Tree::RaiseRoot(Operation& operation, RootWord old_root, const Key& separator,
                                   RemotePtr child) {
  const uint32_t level = old_root.level() + 1;
  const uint32_t bytes = shared_.parameters.node_bytes;
  Result<BufferLease> lease = Buffer(bytes + BufferPool::kMinBytes);
  if (!lease) co_return lease.error();
  // The queue pair that the CAS goes out on is one of the lease in force when the node was allocated (rule U4).
  BOOST_OUTCOME_CO_TRYV(co_await Register(operation, ServerId{0}));
  Result<Allocated<RemotePtr>> allocated =
      co_await AllocateNode(operation, ServerId{0}, NodeKind::kInternal);
  if (!allocated) co_return allocated.error();
  allocated.value().Posted();
  LinkedMemory links;
  links.Add(allocated.value().stamp());
  const RemotePtr pointer = allocated.value().pointer();
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
    if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(operation, batch);
  }
  const RootWord new_root(pointer, level);
  InlineBatch<1> batch(ServerId{0});
  batch.Add(Verb::CompareSwap(Space::kRegion, kRootWordOffset, old_root.word(), new_root.word(),
                              lease.value().address(bytes)));
  if (IsBroken(Mutant::kR7)) {
    const uint64_t word = new_root.word();
    std::memcpy(lease.value().data(), &word, sizeof word);
    batch.Reset(ServerId{0});
    batch.Add(Verb::Write(kRootWordOffset, sizeof word, lease.value().address()));
  }
  BOOST_OUTCOME_CO_TRYV(CheckLinks(operation, links, ServerId{0}));
  co_await Execute(operation, batch);
  if (IsBroken(Mutant::kR7) && batch.status() == VerbStatus::kSuccess) {
    const uint64_t word = old_root.word();
    std::memcpy(lease.value().data(), &word, sizeof word);
  }
  uint64_t found = 0;
  if (batch.status() == VerbStatus::kSuccess) {
    found = batch.verbs()[0].old_value();
  } else {
    BOOST_OUTCOME_CO_TRYV(co_await Recover(operation, ServerId{0}));
    const Result<RootWord> root = co_await ReadRoot(operation);
    if (!root) co_return root.error();
    // If the word is another, this one may have been in between: the node stays.
    if (root.value() != new_root) co_return false;
    found = old_root.word();
  }
  if (found != old_root.word()) {
    allocated.value().GiveBack();
    shared_.cache.SetRoot(RootWord::FromWord(found));
    co_return false;
  }
  Remember(pointer, node);
  shared_.cache.SetRoot(new_root);
  co_return true;
}

// A hop over a sibling sees to it that the sibling has its downlink, in the background and one at a time.
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
    const Result<LeafEnd> end = co_await ReadLeafEnd(operation, left);
    if (!end) co_return end.error();
    high = end.value().high;
    sibling = end.value().sibling;
  } else {
    const Result<InternalNode> node = co_await ReadInternal(operation, left);
    if (!node) co_return node.error();
    high = node.value().high;
    sibling = node.value().sibling;
  }
  if (high.infinite || sibling.is_null()) co_return Ok();
  // A look without the lock: usually the client that split the node has linked it by now.
  const RootWord root = shared_.cache.root();
  if (root.level() > level) {
    const Result<Step> path = co_await Descend(operation, SearchGoal::Covering(high.key), level);
    if (!path) co_return path.error();
    if (path.value().node == sibling && !path.value().parent.is_null()) co_return Ok();
  } else {
    const Result<RootWord> read = co_await ReadRoot(operation);
    if (!read) co_return read.error();
  }
  const Status linked =
      co_await InsertIntoParent(operation, level + 1, high.key, sibling, LockedParent());
  co_return linked;
}

}  // namespace gossamer
