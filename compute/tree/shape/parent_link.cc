#include "compute/tree/shape/parent_link.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <ranges>
#include <utility>
#include <vector>

#include "compute/leaf/leaf_packer.h"
#include "compute/rules/rules.h"
#include "compute/tree/shape/internal_split.h"
#include "compute/tree/shape/node_union.h"

namespace gossamer {
namespace {

// Most hops and fresh descents to find the node of a separator.
constexpr uint32_t kMaxMoves = 1000;

}  // namespace

Result<std::span<std::byte>> UnseenNodes::Add(RemotePtr node) {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  const bool has_room =
      !runs_.empty() && runs_.back().batch.server() == node.server() &&
      (runs_.back().batch.verbs().size() + 1) * bytes <= runs_.back().images.capacity() &&
      !runs_.back().batch.full();
  if (!has_room) {
    const size_t count = std::clamp<size_t>(expected_, 1, kNodesPerBatch);
    BOOST_OUTCOME_TRY(images, context_.links.Buffer(count * bytes));
    Run& run = runs_.emplace_back();
    run.images = std::move(images);
    run.batch.Reset(node.server());
  }
  Run& run = runs_.back();
  const LocalAddress at = run.images.address(run.batch.verbs().size() * bytes);
  run.batch.Add(Verb::Write(node.offset(), bytes, at));
  return std::span<std::byte>(at.data, bytes);
}

void UnseenNodes::AddWrites(Batch& batch) const {
  for (const Run& run : runs_) {
    for (const Verb& write : run.batch.verbs()) batch.Add(write);
  }
}

void UnseenNodes::AppendUnwritten(std::vector<Batch*>& batches) {
  for (Run& run : runs_) {
    if (run.batch.status() != VerbStatus::kSuccess) batches.push_back(&run.batch);
  }
}

bool UnseenNodes::are_written() const {
  return std::ranges::all_of(
      runs_, [](const Run& run) { return run.batch.status() == VerbStatus::kSuccess; });
}

Task<Status> UnseenNodes::WriteRest(Op& op) {
  Links& links = context_.links;
  std::vector<Batch*> batches;
  for (;;) {
    batches.clear();
    AppendUnwritten(batches);
    if (batches.empty()) co_return Ok();
    co_await links.ExecuteAll(op, batches);
    for (const Batch* batch : batches) {
      if (batch->status() == VerbStatus::kSuccess) continue;
      // The old queue pair is destroyed before each retry (rule U1).
      const Status replaced = co_await links.Replace(op, Links::LossOf(*batch));
      op.needs_other_memory = op.needs_other_memory || !replaced;
      if (!replaced) co_return replaced;
      if (!links.MayUse(op, batch->server())) {
        op.needs_other_memory = true;  // likewise if this session cannot register anew
        co_return links.OfThePast(op, batch->server());
      }
    }
  }
}

Verb ReadChild(const TreeContext& context, uint32_t level, RemotePtr child, LocalAddress into) {
  const uint32_t trailer = context.geometry().trailer_offset();
  return level == 1 ? Verb::Read(child.offset() + trailer, kTrailerBytes, into)
                    : Verb::Read(child.offset(), context.store.parameters.node_bytes, into);
}

bool ChildMatches(const TreeContext& context, const std::byte* image, uint32_t level,
                  const Key& separator, RemotePtr child) {
  const uint32_t bytes = context.store.parameters.node_bytes;
  if (level == 1) {
    const std::optional<TrailerView> trailer =
        rules::ParseTrailer({image, kTrailerBytes}, child, context.geometry());
    return trailer && rules::MayLink(trailer->frozen()) && trailer->low().Matches(separator);
  }
  const std::optional<InternalView> node = InternalView::Parse({image, bytes}, child);
  return node && rules::MayLink(node->frozen()) && node->low() == separator.view();
}

Verb ReadLockOf(const TreeContext& context, RemotePtr child, LocalAddress into) {
  const ServerInfo* const server = context.links.servers().Find(child.server());
  assert(server != nullptr);
  return Verb::FetchAdd(Space::kLockTable, LockSlotOffset(child, server->lock_table_bytes), 0,
                        into);
}

bool IsBeingMerged(LocalAddress word) {
  uint64_t bits = 0;
  std::memcpy(&bits, word.data, sizeof bits);
  return LockWord::FromWord(bits).merges();
}

Task<Status> ParentLinker::Insert(Op& op, uint32_t level, Downlinks children, LockedParent parent) {
  assert(!children.empty());
  Downlinks above;
  std::span<const InternalNode::Child> rest(children);
  for (;;) {
    if (!parent.is_tried) {
      RootWord root = context_.cache.root();
      if (root.word() == 0 || root.level() < level) {
        BOOST_OUTCOME_CO_TRY(read, co_await context_.nodes.ReadRoot(op));
        root = read;
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
        BOOST_OUTCOME_CO_TRY(root, co_await context_.nodes.ReadRoot(op));
        if (root.level() >= level) co_return inserted.error();
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
  BOOST_OUTCOME_CO_TRY(is_there, co_await Lock(op, level, first, parent));
  const RemotePtr pointer = parent.lock.node();
  InternalView& view = *parent.view;
  const HighFence high = view.high();
  const auto end = std::ranges::find_if_not(
      children, [&high](const auto& child) { return high.Admits(child.separator); });
  Downlinks here(children.begin(), end);
  children = {end, children.end()};
  if (!is_there) here.erase(here.begin());
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
    context_.cache.Insert(op.began.flushes, pointer, view, here);
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

Task<Result<bool>> ParentLinker::TryNext(Op& op, Search& search, LockedParent& parent) {
  RemoteLock& lock = parent.lock;
  parent.is_before_child = false;
  RemotePtr next = search.sibling;
  if (next.is_null()) {
    const SearchGoal goal = SearchGoal::Covering(search.child.separator);
    std::optional<NodeCache::Step> path = context_.cache.Find(goal, search.level);
    if (!path || path->level != search.level) {
      lock.GiveUpTurn();  // a descent may have to take locks
      BOOST_OUTCOME_CO_TRY(found, co_await context_.descent.To(op, goal, search.level));
      path = found;
    }
    if (path->level != search.level) {
      co_return MakeError(Code::kContended, "the tree has become lower");
    }
    next = path->node;
  }
  BOOST_OUTCOME_CO_TRYV(lock.AimAt(next));
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
  const uint32_t read_count = AddReads(parent, search.level, search.child.pointer, true, reads);
  BOOST_OUTCOME_CO_TRYV(co_await lock.Try({reads.data(), read_count}));
  co_return true;
}

Task<Result<bool>> ParentLinker::Lock(Op& op, uint32_t level, const InternalNode::Child& child,
                                      LockedParent& parent) {
  const uint32_t bytes = context_.store.parameters.node_bytes;
  BOOST_OUTCOME_CO_TRYV(context_.links.CheckReaches(op, child.pointer, bytes));
  if (!parent.buffers) {
    BOOST_OUTCOME_CO_TRYV(AllocateBuffers(parent));
  }
  RemoteLock& lock = parent.lock;
  Search search{level, child};
  for (uint32_t moves = 0; moves < kMaxMoves;) {
    if (!std::exchange(parent.is_tried, false)) {
      BOOST_OUTCOME_CO_TRY(is_tried, co_await TryNext(op, search, parent));
      if (!is_tried) continue;
    }
    if (!lock.is_held()) {
      BOOST_OUTCOME_CO_TRYV(co_await lock.BackOff());
      continue;
    }
    const std::span<const std::byte> image(parent.buffers.data() + LockedBuffers::kImage, bytes);
    parent.view = InternalView::Parse(image, lock.node());
    if (search.StartsBefore(parent.view) && parent.view->high().Admits(child.separator)) {
      co_return co_await CheckChild(op, level, child, parent);
    }
    BOOST_OUTCOME_CO_TRYV(co_await LeaveStaleNode(op, search, parent));
    ++moves;
  }
  co_return CorruptNode(lock.node(), "an internal node that does not lead to its range");
}

// If the parent has split since it was cached, goes right, one lock at a time. If it is unreadable,
// descends again (rule R5).
Task<Status> ParentLinker::LeaveStaleNode(Op& op, Search& search, LockedParent& parent) {
  RemoteLock& lock = parent.lock;
  const std::optional<InternalView>& view = parent.view;
  const KeyView separator = search.child.separator;
  BOOST_OUTCOME_CO_TRYV(co_await lock.Release());
  const bool is_sibling = lock.node() == std::exchange(search.sibling, RemotePtr());
  if (view && view->frozen() && is_sibling) {
    // Its left neighbour has its range soon. Downlinks can be made again (rule W6).
    context_.store.merges.Note(
        {search.level, search.left_low, MergeQueue::Request::Kind::kUnfinished});
    co_return MakeError(Code::kContended, "an internal node whose merge is not finished");
  }
  if (search.StartsBefore(view)) {
    search.left_low = Key(view->low());
    context_.cache.Insert(op.began.flushes, lock.node(), *view);
    search.sibling = view->sibling();
    co_return Ok();
  }
  search.failures = lock.node() == search.failed ? search.failures + 1 : 1;
  search.failed = lock.node();
  if (search.failures == kMaxFailures) {
    co_return CorruptNode(lock.node(), "an internal node that fails its checks under its lock");
  }
  context_.cache.Forget(search.level, separator, lock.node());
  const auto stale = context_.cache.Find(SearchGoal::Covering(separator), search.level);
  if (stale && stale->node == lock.node()) context_.cache.ForgetPath(*stale);
  lock.GiveUpTurn();
  if (view && view->was_root()) {
    BOOST_OUTCOME_CO_TRYV(co_await height_.Lower(op, RootWord(lock.node(), search.level)));
  }
  BOOST_OUTCOME_CO_TRYV(co_await context_.nodes.ReadRoot(op));
  co_return Ok();
}

// Behind the lock's CAS: from now on the child can vanish only under this parent's lock (rule W4).
// But a client that has lost the lock of the parent, as that was before it split, may still be
// merging the child on another server, where its lease is in force. The child's lock word says so,
// until the child is frozen or the client is fenced there too.
Task<Result<bool>> ParentLinker::CheckChild(Op& op, uint32_t level,
                                            const InternalNode::Child& child,
                                            LockedParent& parent) {
  if (parent.is_before_child) co_return true;
  if (child.pointer.server() != parent.lock.server()) {
    InlineBatch<2> remote(child.pointer.server());
    remote.Add(ReadLockOf(context_, child.pointer, ChildWord(parent)));
    remote.Add(ReadChild(context_, level, child.pointer, ChildImage(parent)));
    co_await context_.links.Execute(op, remote);
    if (remote.status() != VerbStatus::kSuccess) {
      co_return co_await parent.lock.ReleaseAfter(Links::Unreachable(op, remote));
    }
    parent.has_child_word = true;
  }
  if (parent.has_child_word && !rules::MayLink(IsBeingMerged(ChildWord(parent)))) co_return false;
  co_return rules::IsChildThere(
      ChildMatches(context_, ChildImage(parent).data, level, child.separator, child.pointer));
}

// 1 RT for each server that has some of them, unless no other operation could know them before the
// lock was taken. Behind the lock's CAS, as in CheckChild (rule W4).
Task<Status> ParentLinker::CheckOthers(Op& op, uint32_t level, RemotePtr checked,
                                       Downlinks& children, LockedParent& parent) {
  if (parent.is_before_child) co_return Ok();
  const uint32_t bytes =
      level == 1 ? uint32_t{BufferPool::kMinBytes} : context_.store.parameters.node_bytes;
  Downlinks found;
  for (size_t i = 0; i < children.size();) {
    if (children[i].pointer == checked) {
      found.push_back(children[i++]);
      continue;
    }
    constexpr size_t kAtOnce = UnseenNodes::kNodesPerBatch / 2;
    InlineBatch<2 * kAtOnce> batch(children[i].pointer.server());
    Result<BufferLease> buffer = context_.links.Buffer(kAtOnce * (bytes + sizeof(uint64_t)));
    if (!buffer) co_return co_await parent.lock.ReleaseAfter(buffer.error());
    const size_t begin = i;
    for (; i < children.size() && i - begin < kAtOnce; ++i) {
      const RemotePtr child = children[i].pointer;
      if (child == checked || child.server() != batch.server()) break;
      const LocalAddress into = buffer.value().address((i - begin) * bytes);
      const LocalAddress word_at =
          buffer.value().address(kAtOnce * bytes + (i - begin) * sizeof(uint64_t));
      batch.Add(ReadLockOf(context_, child, word_at));
      batch.Add(ReadChild(context_, level, child, into));
    }
    co_await context_.links.Execute(op, batch);
    if (batch.status() != VerbStatus::kSuccess) {
      co_return co_await parent.lock.ReleaseAfter(Links::Unreachable(op, batch));
    }
    for (size_t read = begin; read < i; ++read) {
      const std::byte* image = buffer.value().data() + (read - begin) * bytes;
      const InternalNode::Child& child = children[read];
      const LocalAddress word = batch.verbs()[2 * (read - begin)].local;
      if (!rules::MayLink(IsBeingMerged(word))) continue;
      if (rules::IsChildThere(
              ChildMatches(context_, image, level, child.separator, child.pointer))) {
        found.push_back(child);
      }
    }
  }
  children = std::move(found);
  co_return Ok();
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
    co_return co_await parent.lock.ReleaseAfter(
        MakeError(Code::kExhausted, "an internal node that lacks other downlinks"));
  }
  for (InternalNode& behind : *parts) {
    Result<Allocated<RemotePtr>> allocated =
        co_await context_.memory.AllocateNode(op, pointer.server(), NodeKind::kInternal);
    if (!allocated) co_return co_await parent.lock.ReleaseAfter(allocated.error());
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
  if (!prepared) co_return co_await lock.ReleaseAfter(prepared.error());
  if (!fits) {
    co_return co_await lock.ReleaseAfter(
        CorruptNode(pointer, "an internal node whose parts do not fit"));
  }
  InlineBatch<3> batch(pointer.server());
  if (is_alone) {
    batch.Add(Verb::Write(right[0].pointer.offset(), bytes, right_at));
  } else if (!right.empty()) {
    const Status written = co_await unseen.WriteRest(op);
    if (!written) co_return co_await lock.ReleaseAfter(written.error());
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
  // Looked at first: what AimAt notes of a failure would count for the whole operation.
  if (!context_.links.Reaches(path.parent, context_.store.parameters.node_bytes)) co_return false;
  if (!parent.lock.AimAt(path.parent) || !AllocateBuffers(parent)) co_return false;
  if (parent.lock.place() == place) co_return false;
  const Status registered = co_await context_.links.Register(op, parent.lock.server());
  if (!registered) co_return false;
  co_return parent.lock.TryTakeTurn();
}

Task<Result<std::optional<RemotePtr>>> ParentLinker::Absorb(Op& op, uint32_t level,
                                                            const Key& key) {
  assert(level > 0);
  const uint32_t bytes = context_.store.parameters.node_bytes;
  const std::optional<RemotePtr> nothing;
  BOOST_OUTCOME_CO_TRY(path, co_await context_.descent.To(op, SearchGoal::Covering(key), level));
  if (path.level != level) co_return nothing;
  LockedParent left(context_.locks, op);
  BOOST_OUTCOME_CO_TRYV(AllocateBuffers(left));
  BOOST_OUTCOME_CO_TRYV(left.lock.AimAt(path.node));
  BOOST_OUTCOME_CO_TRYV(co_await context_.links.Register(op, left.lock.server()));
  if (!left.lock.TryTakeTurn()) co_return nothing;
  const Verb read = ReadParent(left);
  BOOST_OUTCOME_CO_TRY(tried, co_await left.lock.Try({&read, 1}));
  if (tried == RemoteLock::Attempt::kRefused) co_return nothing;
  const std::span<const std::byte> image(left.buffers.data() + LockedBuffers::kImage, bytes);
  left.view = InternalView::Parse(image, left.lock.node());
  const RemotePtr right = left.view ? left.view->sibling() : RemotePtr();
  NodeUnion both(context_.geometry());
  bool is_frozen = false;
  if (!right.is_null() && context_.links.Reaches(right, bytes)) {
    const LocalAddress into = left.buffers.address(LockedBuffers::kImage + bytes);
    InlineBatch<1> batch(right.server());
    batch.Add(Verb::Read(right.offset(), bytes, into));
    const Status done = co_await left.lock.Read(batch);
    const Neighbours nodes{RemotePtr(),           level, left.lock.node(),
                           Key(left.view->low()), right, left.view->high().key};
    is_frozen = done && both.Combine(nodes, image, {into.data, bytes}, NodeUnion::Right::kFrozen);
  }
  if (!is_frozen) {
    BOOST_OUTCOME_CO_TRYV(co_await left.lock.Release());
    co_return nothing;
  }
  left.node = both.node();
  Downlinks above;
  const size_t index = left.node->children.size() - 2;
  BOOST_OUTCOME_CO_TRYV(co_await Rewrite(op, left, index, above));
  if (!above.empty()) {
    // If they are not made, the next hop makes the downlinks (rule W6).
    static_cast<void>(
        co_await Insert(op, level + 1, std::move(above), LockedParent(context_.locks, op)));
  }
  co_return std::optional(right);
}

}  // namespace gossamer
