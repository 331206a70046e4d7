#include "compute/tree/shape/parent_link.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <ranges>
#include <utility>
#include <vector>

#include "compute/leaf/leaf_edit.h"
#include "compute/tree/shape/check_child.h"
#include "compute/tree/shape/internal_split.h"
#include "compute/tree/shape/unseen_nodes.h"

namespace gossamer {
namespace {

// Most hops and fresh descents to find the node of a separator.
constexpr uint32_t kMaxMoves = 1000;

}  // namespace

Task<Status> ParentLinker::Insert(Op& op, uint32_t level, Downlinks children, LockedParent parent) {
  assert(!children.empty());
  Downlinks above;
  std::span<const InternalNode::Child> rest(children);
  for (;;) {
    if (!parent.is_tried) {
      RootWord root = context_.cache.root();
      if (root.word() == 0 || root.level() < level) {
        const Result<RootWord> read = co_await context_.nodes.ReadRoot(op);
        if (!read) co_return read.error();
        root = read.value();
      }
      if (root.level() < level) {
        parent.lock.GiveUpTurn();
        const auto raised = co_await height_.Raise(op, level, rest.front());
        if (!raised) co_return raised.error();
        if (raised.value() == TreeHeight::Raised::kByAnother) continue;
        rest = rest.subspan(1);
      }
    }
    if (!rest.empty()) {
      const Status inserted = co_await InsertInto(op, level, rest, parent, above);
      // If the tree has become lower meanwhile, a new root is needed. The cache does not tell that:
      // it takes no root from an operation that began before the present lease.
      const bool may_be_lower = !inserted && inserted.error().code == Code::kContended &&
                                context_.cache.root().level() < level;
      if (!inserted && !may_be_lower) co_return inserted.error();
      if (may_be_lower) {
        const Result<RootWord> root = co_await context_.nodes.ReadRoot(op);
        if (!root) co_return root.error();
        if (root.value().level() >= level) co_return inserted.error();
      }
    }
    parent = LockedParent(context_.locks, op);
    if (!rest.empty()) continue;
    if (above.empty()) co_return Ok();
    // The split of a parent is an operation's as any other: a repair that made it waits for the
    // locks above.
    op.is_repair = false;
    children = std::exchange(above, {});
    rest = children;
    ++level;
  }
}

Task<Status> ParentLinker::InsertInto(Op& op, uint32_t level,
                                      std::span<const InternalNode::Child>& children,
                                      LockedParent& parent, Downlinks& above) {
  const InternalNode::Child& first = children.front();
  BOOST_OUTCOME_CO_TRYV(co_await Lock(op, level, first.separator, first.pointer, parent));
  const RemotePtr pointer = parent.lock.node();
  InternalView& view = *parent.view;
  const HighFence high = view.high();
  const auto end = std::ranges::find_if_not(
      children, [&high](const auto& child) { return high.Admits(child.separator); });
  Downlinks here(children.begin(), end);
  children = {end, children.end()};
  if (!parent.child_is_there) here.erase(here.begin());
  // Another operation may have been quicker.
  std::erase_if(here, [&view](const auto& child) { return view.HasChildAt(child.separator); });
  if (here.size() > 1 || (here.size() == 1 && here[0].pointer != first.pointer)) {
    BOOST_OUTCOME_CO_TRYV(co_await CheckOthers(op, level, first.pointer, here, parent));
  }
  if (here.empty()) {
    BOOST_OUTCOME_CO_TRYV(co_await parent.lock.Release());
    context_.cache.Insert(op.began.flushes, pointer, view);
    co_return Ok();
  }
  const std::span<std::byte> image(parent.buffers.data() + LockedBuffers::kImage,
                                   context_.store.parameters.node_bytes);
  if (AddInPlace(image, pointer, Next(view.version()), here, view)) {
    BOOST_OUTCOME_CO_TRYV(co_await Write(op, parent, {}));
    context_.cache.Insert(op.began.flushes, pointer, view);
    co_return Ok();
  }
  InternalNode& node = parent.node.emplace(view.Decode());
  node.version = Next(node.version);
  size_t index = 0;
  for (const InternalNode::Child& child : here) {
    index = node.ChildIndex(child.separator);
    node.children.insert(node.children.begin() + static_cast<ptrdiff_t>(index) + 1, child);
  }
  co_return co_await Rewrite(op, parent, index, above);
}

Task<Status> ParentLinker::Rewrite(Op& op, LockedParent& parent, size_t index, Downlinks& above) {
  const RemotePtr pointer = parent.lock.node();
  const InternalNode& node = *parent.node;
  RightNodes right;
  if (EncodedBytes(node) > context_.store.parameters.node_bytes) {
    BOOST_OUTCOME_CO_TRYV(co_await Split(op, parent, index, right));
  }
  BOOST_OUTCOME_CO_TRYV(co_await Write(op, parent, right));
  for (RightNode& one : right) {
    one.memory.Linked();
    above.push_back({Key(one.node.low()), one.pointer});
  }
  for (const RightNode& one : std::views::reverse(right)) {
    context_.cache.Insert(op.began.flushes, one.pointer, one.node);
  }
  context_.cache.Insert(op.began.flushes, pointer, node);
  co_return Ok();
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

uint32_t ParentLinker::AddReads(LockedParent& parent, uint32_t level, RemotePtr child,
                                bool wants_child_word, std::span<Verb, 3> reads) const {
  const bool is_here = child.server() == parent.lock.server();
  parent.has_child_word = is_here && wants_child_word;
  uint32_t count = 0;
  reads[count++] = ReadParent(parent);
  if (parent.has_child_word) reads[count++] = ReadLockOf(context_, child, ChildWord(parent));
  if (is_here) reads[count++] = ReadChild(context_, level, child, ChildImage(parent));
  return count;
}

Task<Result<RemotePtr>> ParentLinker::FindParent(Op& op, uint32_t level, const Key& separator,
                                                 LockedParent& parent) {
  const SearchGoal goal = SearchGoal::Covering(separator);
  const std::optional<NodeCache::Step> cached = context_.cache.Find(goal, level);
  if (cached && cached->level == level) co_return cached->node;
  parent.lock.GiveUpTurn();  // a descent may have to take locks
  const Result<NodeCache::Step> found = co_await context_.descent.To(op, goal, level);
  if (!found) co_return found.error();
  if (found.value().level != level) {
    co_return MakeError(Code::kContended, "the tree has become lower");
  }
  co_return found.value().node;
}

Task<Result<bool>> ParentLinker::Try(Op& op, uint32_t level, RemotePtr child,
                                     LockedParent& parent) {
  RemoteLock& lock = parent.lock;
  if (!lock.HasTurn() && !lock.TryTakeTurn()) {
    // A repair does not wait; the next hop tries again.
    if (op.is_repair) co_return MakeError(Code::kContended);
    const LockTable::Answer answer = co_await lock.TakeTurn(nullptr);
    if (answer == LockTable::Answer::kLookUp) co_return false;
    if (answer == LockTable::Answer::kClosed) {
      BOOST_OUTCOME_CO_TRYV(co_await lock.AwaitSettled());
      co_return false;
    }
  }
  std::array<Verb, 3> reads;
  const uint32_t read_count = AddReads(parent, level, child, true, reads);
  const Result<RemoteLock::Attempt> tried = co_await lock.Try({reads.data(), read_count});
  if (!tried) co_return tried.error();
  co_return true;
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
  Key left_low;  // of the node with that sibling
  RemotePtr failed;
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
      const Result<bool> tried = co_await Try(op, level, child, parent);
      if (!tried) co_return tried.error();
      if (!tried.value()) continue;
    }
    if (!lock.is_held()) {
      BOOST_OUTCOME_CO_TRYV(co_await lock.BackOff());
      continue;
    }

    const std::span<const std::byte> image(parent.buffers.data() + LockedBuffers::kImage, bytes);
    parent.view = InternalView::Parse(image, lock.node());
    const std::optional<InternalView>& view = parent.view;
    const bool starts_before =
        view && !view->frozen() && view->level() == level && view->low() <= separator.view();
    if (starts_before && view->high().Admits(separator)) {
      co_return co_await CheckChild(op, level, separator, child, parent);
    }
    // If the parent has split since it was cached, go right, one lock at a time. If it is
    // unreadable, descend again (rule R5).
    BOOST_OUTCOME_CO_TRYV(co_await lock.Release());
    if (view && view->frozen() && lock.node() == sibling) {
      // Its left neighbour has its range soon. Downlinks can be made again (rule W6).
      context_.store.merges.Note({level, left_low, MergeQueue::Request::Kind::kUnfinished});
      co_return MakeError(Code::kContended, "an internal node whose merge is not finished");
    }
    sibling = RemotePtr();
    if (starts_before) {
      left_low = Key(view->low());
      context_.cache.Insert(op.began.flushes, lock.node(), *view);
      sibling = view->sibling();
    } else {
      failures = lock.node() == failed ? failures + 1 : 1;
      failed = lock.node();
      if (failures == kMaxFailures) {
        co_return CorruptNode(lock.node(), "an internal node that fails its checks under its lock");
      }
      context_.cache.Forget(level, separator, lock.node());
      const auto stale = context_.cache.Find(SearchGoal::Covering(separator), level);
      if (stale && stale->node == lock.node()) context_.cache.ForgetPath(*stale);
      lock.GiveUpTurn();
      if (view && view->was_root()) {
        const Result<bool> lowered = co_await height_.Lower(op, RootWord(lock.node(), level));
        if (!lowered) co_return lowered.error();
      }
      const Result<RootWord> root = co_await context_.nodes.ReadRoot(op);
      if (!root) co_return root.error();
    }
    if (++moves == kMaxMoves) {
      co_return CorruptNode(lock.node(), "an internal node that does not lead to its range");
    }
  }
}

Task<Status> ParentLinker::Split(Op& op, LockedParent& parent, size_t index, RightNodes& right) {
  const RemotePtr pointer = parent.lock.node();
  InternalNode& node = *parent.node;
  // At the right edge of the tree, so that ascending loads fill nodes.
  const size_t above = node.children.size() - index - 2;
  const bool at_end = node.high.infinite && above <= node.children.size() / kEdgeFraction;
  auto parts = SplitInternal(node, at_end, context_.store.parameters.node_bytes);
  if (!parts) {
    // The remote node stays as it is. The downlink can be made once others between its children are
    // (rule W6).
    BOOST_OUTCOME_CO_TRYV(co_await parent.lock.Release());
    co_return MakeError(Code::kExhausted, "an internal node that lacks other downlinks");
  }
  for (InternalNode& behind : *parts) {
    Result<Allocated<RemotePtr>> allocated =
        co_await context_.memory.AllocateNode(op, pointer.server(), NodeKind::kInternal);
    if (!allocated) {
      BOOST_OUTCOME_CO_TRYV(co_await parent.lock.Release());
      co_return allocated.error();
    }
    const RemotePtr at = allocated.value().pointer();
    (right.empty() ? node : right.back().node).sibling = at;
    right.push_back({std::move(behind), at, std::move(allocated.value())});
  }
  for (RightNode& one : right) {
    one.memory.Posted();
    parent.lock.linked().Add(one.memory.stamp());
  }
  co_return Ok();
}

Task<Status> ParentLinker::Write(Op& op, LockedParent& parent, const RightNodes& right) {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  RemoteLock& lock = parent.lock;
  const RemotePtr pointer = lock.node();
  const LocalAddress left_at = parent.buffers.address(LockedBuffers::kImage);
  const LocalAddress right_at = left_at + bytes;
  bool fits = !parent.node || EncodeInternal({left_at.data, bytes}, pointer, *parent.node);
  const bool is_alone = right.size() == 1 && right[0].pointer.server() == pointer.server();
  UnseenNodes unseen(context_, right.size());
  Status prepared = Ok();
  if (is_alone) {
    fits = fits && EncodeInternal({right_at.data, bytes}, right[0].pointer, right[0].node);
  } else {
    for (const RightNode& one : right) {
      const Result<std::span<std::byte>> image = unseen.Add(one.pointer);
      if (!image) prepared = image.error();
      fits = fits && image && EncodeInternal(image.value(), one.pointer, one.node);
    }
  }
  if (!fits) {
    BOOST_OUTCOME_CO_TRYV(co_await lock.Release());
    if (!prepared) co_return prepared;
    co_return CorruptNode(pointer, "an internal node whose parts do not fit");
  }
  InlineBatch<3> batch(pointer.server());
  if (is_alone) {
    batch.Add(Verb::Write(right[0].pointer.offset(), bytes, right_at));
  } else if (!right.empty()) {
    const Status written = co_await unseen.WriteRest(op);
    if (!written) {
      BOOST_OUTCOME_CO_TRYV(co_await lock.Release());
      co_return written;
    }
  }
  batch.Add(Verb::Write(pointer.offset(), bytes, left_at));
  // A child can be put in again. Children that were moved to the right may be changed there from
  // now on.
  std::optional<RemoteLock::NewVersion> changed;
  if (!right.empty()) changed = {pointer, parent.node->level, parent.node->version};
  LockTable::Waiter* next = lock.NextWaiter();
  const Status committed = co_await lock.Commit(
      batch, next != nullptr ? RemoteLock::After::kKeep : RemoteLock::After::kRelease, changed);
  if (committed && next != nullptr) lock.HandOver(*next);
  co_return committed;
}

// On two servers, the CASes of leaf and parent may take effect in either order. If the parent's
// fails, the operation waits for it with the leaf unlocked.
Task<bool> ParentLinker::TryPrepare(Op& op, const NodeCache::Step& path, const LockPlace& place,
                                    LockedParent& parent) {
  if (!path.has_parent()) co_return false;
  const Status aimed = co_await parent.lock.AimAt(path.parent);
  if (!aimed || !AllocateBuffers(parent)) co_return false;
  if (parent.lock.place() == place) co_return false;
  const Status registered = co_await context_.links.Register(op, parent.lock.server());
  if (!registered) co_return false;
  co_return parent.lock.TryTakeTurn();
}

}  // namespace gossamer
