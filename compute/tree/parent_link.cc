#include "compute/tree/parent_link.h"

#include <array>
#include <utility>
#include <vector>

#include "compute/rules/rules.h"

namespace gossamer {
namespace {

// Most hops and fresh descents to find the node of a separator.
constexpr uint32_t kMaxMoves = 1000;

// Splits `node`, which does not fit into `node_bytes`, and returns the right half. Splits in the
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

Task<Status> ParentLinker::Insert(Op& op, uint32_t level, Key separator, RemotePtr child,
                                  LockedParent parent) {
  for (;;) {
    if (!parent.is_tried) {
      RootWord root = context_.cache.root();
      if (root.word() == 0 || root.level() < level) {
        const Result<RootWord> read = co_await context_.nodes.ReadRoot(op);
        if (!read) co_return read.error();
        root = read.value();
      }
      if (root.level() < level) {
        const Result<Raised> raised = co_await RaiseRoot(op, root, separator, child);
        if (!raised) co_return raised.error();
        if (raised.value() == Raised::kByUs) co_return Ok();
        continue;
      }
    }
    BOOST_OUTCOME_CO_TRYV(co_await Lock(op, level, separator, child, parent));
    const RemotePtr pointer = parent.lock.node();
    InternalNode& node = parent.node;
    const size_t index = node.ChildIndex(separator);
    if (node.children[index].separator == separator || !parent.child_is_there) {
      // Another operation was quicker, or the child is gone.
      BOOST_OUTCOME_CO_TRYV(co_await parent.lock.Release());
      context_.cache.Insert(pointer, node);
      co_return Ok();
    }
    node.version = Next(node.version);
    node.children.insert(node.children.begin() + static_cast<ptrdiff_t>(index) + 1,
                         {separator, child});
    RightHalf right;
    if (EncodedBytes(node) > context_.store.parameters.node_bytes) {
      BOOST_OUTCOME_CO_TRYV(co_await Split(op, parent, index, right));
    }
    BOOST_OUTCOME_CO_TRYV(co_await Write(op, parent, right));
    if (!right.node) {
      context_.cache.Insert(pointer, node);
      co_return Ok();
    }
    context_.cache.InsertSplit(pointer, node, right.pointer, *right.node);
    child = right.pointer;
    separator = Key(right.node->low());
    ++level;
    parent = LockedParent(context_.locks, op);
  }
}

Status ParentLinker::AllocateBuffers(LockedParent& parent) {
  BOOST_OUTCOME_TRY(buffers, context_.links.Buffer(
                                 LockedBuffers::Bytes(2 * context_.store.parameters.node_bytes)));
  parent.buffers = std::move(buffers);
  parent.lock.UseWords(parent.buffers.address(LockedBuffers::kLockWord),
                       parent.buffers.address(LockedBuffers::kUnlockWord));
  return Ok();
}

Verb ParentLinker::ReadParent(const LockedParent& parent) const {
  return Verb::Read(parent.lock.node().offset(), context_.store.parameters.node_bytes,
                    parent.buffers.address(LockedBuffers::kImage));
}

// The child's low fence: in a leaf's trailer, or in the whole of an internal node.
Verb ParentLinker::ReadChild(const LockedParent& parent, uint32_t level, RemotePtr child) const {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  const LocalAddress into = parent.buffers.address(LockedBuffers::kImage + bytes);
  const uint32_t trailer = context_.geometry().trailer_offset();
  return level == 1 ? Verb::Read(child.offset() + trailer, kTrailerBytes, into)
                    : Verb::Read(child.offset(), bytes, into);
}

bool ParentLinker::ChildMatches(const LockedParent& parent, uint32_t level, const Key& separator,
                                RemotePtr child) const {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  const std::byte* image = parent.buffers.data() + LockedBuffers::kImage + bytes;
  if (level == 1) {
    const std::optional<TrailerView> trailer =
        rules::ParseTrailer({image, kTrailerBytes}, child, context_.geometry());
    return trailer && trailer->low().Matches(separator);
  }
  const std::optional<InternalNode> node = DecodeInternal({image, bytes}, child);
  return node && node->low() == separator.view();
}

uint32_t ParentLinker::AddReads(const LockedParent& parent, uint32_t level, RemotePtr child,
                                std::span<Verb, 2> reads) const {
  reads[0] = ReadParent(parent);
  if (child.server() != parent.lock.server()) return 1;
  reads[1] = ReadChild(parent, level, child);
  return 2;
}

Task<Result<RemotePtr>> ParentLinker::FindParent(Op& op, uint32_t level, const Key& separator,
                                                 LockedParent& parent) {
  const SearchGoal goal = SearchGoal::Covering(separator);
  const std::optional<NodeCache::Step> cached = context_.cache.Find(goal, level);
  if (cached && cached->level == level) co_return cached->node;
  parent.lock.GiveUpTurn();  // a descent may have to take locks
  const Result<NodeCache::Step> found = co_await context_.descent.To(op, goal, level);
  if (!found) co_return found.error();
  co_return found.value().node;
}

Task<Result<ParentLinker::Tried>> ParentLinker::Try(Op& op, uint32_t level, RemotePtr child,
                                                    LockedParent& parent) {
  RemoteLock& lock = parent.lock;
  if (!lock.HasTurn() && !lock.TryTakeTurn()) {
    // A repair does not wait; the next hop tries again.
    if (op.is_repair) co_return MakeError(Code::kContended);
    const LockTable::Answer answer = co_await lock.TakeTurn(nullptr);
    if (answer == LockTable::Answer::kLookUp) co_return Tried::kLookAgain;
    if (answer == LockTable::Answer::kClosed) {
      BOOST_OUTCOME_CO_TRYV(co_await lock.AwaitSettled());
      co_return Tried::kLookAgain;
    }
  }
  std::array<Verb, 2> reads;
  const uint32_t read_count = AddReads(parent, level, child, reads);
  const Result<RemoteLock::Attempt> tried = co_await lock.Try({reads.data(), read_count});
  if (!tried) co_return tried.error();
  co_return Tried::kTried;
}

Task<Status> ParentLinker::CheckChild(Op& op, uint32_t level, const Key& separator, RemotePtr child,
                                      LockedParent& parent) {
  if (!parent.is_before_child && child.server() != parent.lock.server()) {
    // Behind the lock's CAS: from now on the child can vanish only under this parent's lock (rule
    // W4).
    InlineBatch<1> remote(child.server());
    remote.Add(ReadChild(parent, level, child));
    co_await context_.links.Execute(op, remote);
    if (remote.status() != VerbStatus::kSuccess) {
      const Error error = Links::Unreachable(op, remote);
      BOOST_OUTCOME_CO_TRYV(co_await parent.lock.Release());
      co_return error;
    }
  }
  parent.child_is_there = parent.is_before_child || ChildMatches(parent, level, separator, child);
  co_return Ok();
}

Task<Status> ParentLinker::Lock(Op& op, uint32_t level, const Key& separator, RemotePtr child,
                                LockedParent& parent) {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  BOOST_OUTCOME_CO_TRYV(co_await context_.links.ConnectFor(child, bytes));
  if (!parent.buffers) {
    BOOST_OUTCOME_CO_TRYV(AllocateBuffers(parent));
  }
  RemoteLock& lock = parent.lock;
  RemotePtr sibling;
  uint32_t failures = 0;
  for (uint32_t moves = 0;;) {
    if (!std::exchange(parent.is_tried, false)) {
      parent.is_before_child = false;
      RemotePtr pointer = sibling;
      if (pointer.is_null()) {
        const Result<RemotePtr> found = co_await FindParent(op, level, separator, parent);
        if (!found) co_return found.error();
        pointer = found.value();
      }
      BOOST_OUTCOME_CO_TRYV(co_await lock.AimAt(pointer));
      const Result<Tried> tried = co_await Try(op, level, child, parent);
      if (!tried) co_return tried.error();
      if (tried.value() == Tried::kLookAgain) continue;
    }
    if (!lock.is_held()) {
      BOOST_OUTCOME_CO_TRYV(co_await lock.BackOff());
      continue;
    }

    const std::span<const std::byte> image(parent.buffers.data() + LockedBuffers::kImage, bytes);
    std::optional<InternalNode> node = DecodeInternal(image, lock.node());
    const bool starts_before = node && node->level == level && node->low() <= separator.view();
    if (starts_before && node->high.Admits(separator)) {
      BOOST_OUTCOME_CO_TRYV(co_await CheckChild(op, level, separator, child, parent));
      parent.node = std::move(*node);
      co_return Ok();
    }
    // If the parent has split since it was cached, go right, one lock at a time. If it is
    // unreadable, descend again (rule R5).
    BOOST_OUTCOME_CO_TRYV(co_await lock.Release());
    sibling = RemotePtr();
    if (starts_before) {
      context_.cache.Insert(lock.node(), *node);
      sibling = node->sibling;
    } else {
      if (++failures == kMaxFailures) {
        co_return CorruptNode(lock.node(), "an internal node that fails its checks under its lock");
      }
      context_.cache.Invalidate(lock.node());
      lock.GiveUpTurn();
      const Result<RootWord> root = co_await context_.nodes.ReadRoot(op);
      if (!root) co_return root.error();
    }
    if (++moves == kMaxMoves) {
      co_return CorruptNode(lock.node(), "an internal node that does not lead to its range");
    }
  }
}

Task<Status> ParentLinker::Split(Op& op, LockedParent& parent, size_t index, RightHalf& right) {
  const RemotePtr pointer = parent.lock.node();
  InternalNode& node = parent.node;
  Result<Allocated<RemotePtr>> allocated =
      co_await context_.memory.AllocateNode(op, pointer.server(), NodeKind::kInternal);
  if (!allocated) {
    BOOST_OUTCOME_CO_TRYV(co_await parent.lock.Release());
    co_return allocated.error();
  }
  allocated.value().Posted();
  right.pointer = allocated.value().pointer();
  parent.lock.linked().Add(allocated.value().stamp());
  // At the right edge of the tree, so that ascending loads fill nodes.
  const size_t above = node.children.size() - index - 2;
  const bool at_end = node.high.infinite && above <= node.children.size() / kEdgeFraction;
  right.node = SplitInternal(node, right.pointer, at_end, context_.store.parameters.node_bytes);
  co_return Ok();
}

Task<Status> ParentLinker::Write(Op& op, LockedParent& parent, const RightHalf& right) {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  RemoteLock& lock = parent.lock;
  const RemotePtr pointer = lock.node();
  const LocalAddress left_at = parent.buffers.address(LockedBuffers::kImage);
  const LocalAddress right_at = left_at + bytes;
  bool fits = EncodeInternal({left_at.data, bytes}, pointer, parent.node);
  if (right.node) fits = fits && EncodeInternal({right_at.data, bytes}, right.pointer, *right.node);
  if (!fits) {
    BOOST_OUTCOME_CO_TRYV(co_await lock.Release());
    co_return CorruptNode(pointer, "an internal node whose halves do not fit");
  }
  InlineBatch<3> batch(pointer.server());
  if (right.node) {
    const Verb write = Verb::Write(right.pointer.offset(), bytes, right_at);
    if (right.pointer.server() == pointer.server()) {
      batch.Add(write);
    } else {
      const Status written = co_await context_.links.WriteUnseen(op, right.pointer.server(), write);
      if (!written) {
        BOOST_OUTCOME_CO_TRYV(co_await lock.Release());
        co_return written.error();
      }
    }
  }
  batch.Add(Verb::Write(pointer.offset(), bytes, left_at));
  // A child can be put in again. Children that were moved to the right half may be changed there
  // from now on.
  std::optional<RemoteLock::NewVersion> changed;
  if (right.node) changed = {pointer, parent.node.level, parent.node.version};
  LockTable::Waiter* next = lock.NextWaiter();
  const Status committed = co_await lock.Commit(
      batch, next != nullptr ? RemoteLock::After::kKeep : RemoteLock::After::kRelease, changed);
  if (committed && next != nullptr) lock.HandOver(*next);
  co_return committed;
}

Task<Result<ParentLinker::Raised>> ParentLinker::RaiseRoot(Op& op, RootWord old_root,
                                                           const Key& separator, RemotePtr child) {
  const uint32_t level = old_root.level() + 1;
  const uint32_t bytes = context_.store.parameters.node_bytes;
  Result<BufferLease> lease = context_.links.Buffer(bytes + BufferPool::kMinBytes);
  if (!lease) co_return lease.error();
  // The CAS goes out on a queue pair of the lease in force when the node was allocated (rule U4).
  BOOST_OUTCOME_CO_TRYV(co_await context_.links.Register(op, ServerId{0}));
  Result<Allocated<RemotePtr>> allocated =
      co_await context_.memory.AllocateNode(op, ServerId{0}, NodeKind::kInternal);
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
    co_await context_.links.Execute(op, batch);
    if (batch.status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, batch);
  }
  BOOST_OUTCOME_CO_TRYV(context_.memory.CheckLinks(op, links, ServerId{0}));
  const RootWord new_root(pointer, level);
  const Result<std::optional<RootWord>> found =
      co_await SwapRoot(op, old_root, new_root, lease.value().address(bytes));
  if (!found) co_return found.error();
  // Unknown: the new node may have been the root in between, so it stays.
  if (!found.value()) co_return Raised::kByAnother;
  if (*found.value() != old_root) {
    allocated.value().GiveBack();
    context_.cache.SetRoot(*found.value());
    co_return Raised::kByAnother;
  }
  context_.cache.Insert(pointer, node);
  context_.cache.SetRoot(new_root);
  co_return Raised::kByUs;
}

Task<Result<std::optional<RootWord>>> ParentLinker::SwapRoot(Op& op, RootWord old_root,
                                                             RootWord new_root,
                                                             LocalAddress word_at) {
  InlineBatch<1> batch(ServerId{0});
  batch.Add(Verb::CompareSwap(Space::kRegion, kRootWordOffset, old_root.word(), new_root.word(),
                              word_at));
  co_await context_.links.Execute(op, batch);
  if (batch.status() == VerbStatus::kSuccess) {
    co_return std::optional(RootWord::FromWord(batch.verbs()[0].old_value()));
  }
  BOOST_OUTCOME_CO_TRYV(co_await context_.links.Replace(op, ServerId{0}));
  const Result<RootWord> root = co_await context_.nodes.ReadRoot(op);
  if (!root) co_return root.error();
  if (root.value() != new_root) co_return std::optional<RootWord>();
  co_return std::optional(old_root);
}

}  // namespace gossamer
