#include "compute/tree/shape/merger.h"

#include <algorithm>
#include <utility>

#include "compute/rules/rules.h"
#include "compute/session/server_batches.h"
#include "compute/tree/shape/merge_parts.h"
#include "compute/tree/shape/parent_link.h"

namespace gossamer {
namespace {

// Nodes are merged if both together fill at most so much of a node. A split leaves halves: each
// must lose a third of what it has before they are merged again, and what is merged must grow by
// half before it is split again. An empty leaf is merged with a full one as well: that one may be
// split soon, but into halves, of which neither is empty.
constexpr size_t kMostPercent = 66;
// A parent that is filled less than this after it lost a child may be worth a merge itself.
constexpr size_t kSparsePercent = 33;

// A merge finds a lock taken or a node changed so often, at most: for some 50 ms. The next delete
// there notes the node again.
constexpr uint32_t kMaxTries = 64;
// Requests that a session takes at a time if there are many.
constexpr int kMostHelped = 4;

bool IsFilledBelow(size_t percent, size_t bytes, size_t capacity) {
  return bytes * 100 <= capacity * percent;
}

bool AreWorthAMerge(const NodeUnion& both) {
  return both.has_empty() || IsFilledBelow(kMostPercent, both.bytes(), both.capacity());
}

// Whether to look again may help: a node that cannot be read may have been merged meanwhile.
bool MayHaveChanged(const Error& error) {
  return error.code == Code::kContended || error.code == Code::kCorruption;
}

}  // namespace

void Merger::NoteSparse(const Key& key) {
  if (context_.store.merges.Note({0, key}) && helping_ == 0) {
    ++helping_;
    context_.links.scheduler().Spawn(Help());
  }
}

Task<void> Merger::Help() {
  for (int taken = 0; taken < kMostHelped; ++taken) {
    const std::optional<MergeQueue::Request> request = context_.store.merges.Take();
    if (!request) break;
    co_await Run(*request);
  }
  --helping_;
}

Task<void> Merger::Run(MergeQueue::Request request) {
  const RunningOperations::Scope scope(context_.running);
  Op op = context_.links.Begin();
  op.kind = OperationClass::kMerge;
  // The store may be closed meanwhile: a lock that stays taken is not waited for.
  op.is_repair = true;
  if (request.kind == MergeQueue::Request::Kind::kUnfinished) {
    Status finished = co_await Finish(op, request.level, request.key);
    while (!finished && op.is_of_the_past) {
      const bool again = co_await context_.links.RecoverFrom(op, finished.error());
      if (!again) break;
      finished = co_await Finish(op, request.level, request.key);
    }
    static_cast<void>(finished);  // the next operation that meets the frozen node notes it again
    context_.counters.of(OperationClass::kMerge) += op.wire;
    co_return;
  }
  Result<std::optional<bool>> improved = co_await Improve(op, request);
  while (!improved && op.is_of_the_past) {
    Error error = improved.error();
    const bool again = co_await context_.links.RecoverFrom(op, error);
    if (!again) break;
    improved = co_await Improve(op, request);
  }
  if (improved ? improved.value() == false : MayHaveChanged(improved.error())) {
    co_await TryLater(request);
  } else if (improved && improved.value()) {
    ++op.wire.operations;
    failures_ = 0;
  }
  context_.counters.of(OperationClass::kMerge) += op.wire;
}

Task<Result<std::optional<bool>>> Merger::Improve(Op& op, const MergeQueue::Request& request) {
  if (request.level != 0 && request.level >= context_.cache.root().level()) {
    BOOST_OUTCOME_CO_TRY(root, co_await context_.nodes.ReadRoot(op));
    if (root.level() <= request.level) {
      co_return co_await LowerRoot(op, request.level, root);
    }
  }
  BOOST_OUTCOME_CO_TRY(found, co_await Look(op, request.level, request.key));
  if (!found) co_return std::optional<bool>();
  BOOST_OUTCOME_CO_TRY(merged, co_await Merge(op, *found));
  if (merged) NoteNext(*found);
  co_return std::optional(merged);
}

// 1 RT to read the root.
Task<Result<std::optional<bool>>> Merger::LowerRoot(Op& op, uint32_t level, RootWord root) {
  if (root.level() < level) co_return std::optional<bool>();
  BOOST_OUTCOME_CO_TRY(node, co_await context_.nodes.ReadInternal(op, root.pointer()));
  if (node.children.size() != 1 || !node.high.infinite) {
    co_return std::optional<bool>();
  }
  BOOST_OUTCOME_CO_TRY(lowered, co_await parents_.height().Lower(op, root));
  if (lowered) context_.store.merges.Note({root.level() - 1, Key()});
  co_return std::optional(lowered);
}

Task<void> Merger::TryLater(MergeQueue::Request request) {
  if (++request.tries == kMaxTries) co_return;
  co_await context_.pauses.After(++failures_);
  context_.store.merges.Note(request);
}

void Merger::NoteNext(const Neighbours& merged) const {
  MergeQueue& merges = context_.store.merges;
  merges.Note({merged.level, merged.low});
  // The last child of the left node and the first one of the right one have one parent now.
  if (merged.level != 0) {
    merges.Note({merged.level - 1, merged.separator});
  }
}

Task<Status> Merger::Finish(Op& op, uint32_t level, const Key& key) {
  if (level == 0) co_return co_await Absorb(op, key);
  BOOST_OUTCOME_CO_TRY(absorbed, co_await parents_.Absorb(op, level, key));
  if (absorbed) context_.memory.FreeNode(op, *absorbed);
  co_return Ok();
}

// 1 RT to read the parent, and 1 RT for the node and its neighbours.
Task<Result<std::optional<Neighbours>>> Merger::Look(Op& op, uint32_t level, const Key& key) {
  const std::optional<Neighbours> nothing;
  const SearchGoal goal = SearchGoal::Covering(key);
  BOOST_OUTCOME_CO_TRY(path, co_await context_.descent.To(op, goal, level));
  if (path.level != level || !path.has_parent()) co_return nothing;
  const RemotePtr at = path.parent;
  const Result<InternalNode> parent = co_await context_.nodes.ReadInternal(op, at);
  if (!parent) {
    context_.cache.ForgetPath(path);
    co_return parent.error();
  }
  const InternalNode& above = parent.value();
  if (above.was_root()) {
    BOOST_OUTCOME_CO_TRYV(co_await parents_.height().Lower(op, RootWord(at, above.level)));
  }
  const bool covers = above.level == level + 1 && !above.frozen && !goal.IsBefore(above.low()) &&
                      !goal.IsBeyond(above.high);
  if (!covers) {
    context_.cache.ForgetPath(path);
    co_return MakeError(Code::kContended, "a parent that has changed");
  }

  const size_t self = above.ChildIndex(key);
  const size_t first = self == 0 ? 0 : self - 1;
  const size_t end = std::min(self + 2, above.children.size());
  Result<BufferLease> images = context_.links.Buffer((end - first) * node_bytes());
  Result<BufferLease> merged = context_.links.Buffer(node_bytes());
  if (!images || !merged) co_return nothing;
  ServerBatches batches;
  for (size_t i = first; i < end; ++i) {
    const RemotePtr child = above.children[i].pointer;
    BOOST_OUTCOME_CO_TRYV(context_.links.CheckReaches(op, child, node_bytes()));
    batches.For(child.server(), 1)
        .Add(Verb::Read(child.offset(), node_bytes(),
                        images.value().address((i - first) * node_bytes())));
  }
  co_await context_.links.ExecuteAll(op, batches.used());
  for (const Batch* batch : batches.used()) {
    if (batch->status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, *batch);
  }
  const auto image = [&](size_t i) {
    return std::span<const std::byte>(images.value().data() + (i - first) * node_bytes(),
                                      node_bytes());
  };
  NodeUnion both(context_.geometry());
  std::optional<Neighbours> found;
  size_t least = 0;
  for (size_t i = first; i + 1 < end; ++i) {
    const InternalNode::Child& left = above.children[i];
    const InternalNode::Child& right = above.children[i + 1];
    const Neighbours nodes{at, level, left.pointer, left.separator, right.pointer, right.separator};
    uint64_t hint = 0;
    const bool fit = both.Combine(nodes, image(i), image(i + 1), NodeUnion::Right::kLive) &&
                     AreWorthAMerge(both) &&
                     both.Encode({merged.value().data(), node_bytes()}, hint);
    if (!fit || (found && both.bytes() >= least)) continue;
    found = nodes;
    least = both.bytes();
  }
  co_return found;
}

Task<Result<bool>> Merger::Merge(Op& op, const Neighbours& nodes) {
  MergeParts parts(context_, op);
  BOOST_OUTCOME_CO_TRY(merged, context_.links.Buffer(node_bytes()));
  const Result<bool> locked = co_await parts.TryLocks(nodes);
  NodeUnion both(context_.geometry());
  std::optional<InternalNode> parent;
  uint64_t hint = 0;
  bool is_possible = locked && locked.value();
  if (is_possible) {
    parent = DropDownlink(nodes, parts.image(MergeParts::kParent));
    is_possible = parent &&
                  both.Combine(nodes, parts.image(MergeParts::kLeft),
                               parts.image(MergeParts::kRight), NodeUnion::Right::kLive) &&
                  AreWorthAMerge(both) && both.Encode({merged.data(), node_bytes()}, hint);
  }
  if (!is_possible) {
    co_await parts.ReleaseAll();
    if (!locked) co_return locked.error();
    co_return false;
  }
  if (rules::FreezesFirst()) both.Freeze(parts.image(MergeParts::kRight));

  const Status committed = co_await parts.Commit(nodes, both, *parent, merged.address());
  if (!committed) {
    co_await parts.ReleaseAll();
    co_return committed.error();
  }
  // Nothing leads to it, and nobody writes to it (PROTOCOL.md).
  context_.memory.FreeNode(op, nodes.right);
  context_.cache.Insert(op.began.flushes, nodes.parent, *parent);
  if (nodes.level == 0) {
    context_.cache.ReplaceHint(nodes.low, nodes.left, hint);
  } else {
    context_.cache.Insert(op.began.flushes, nodes.left, both.node());
  }
  const size_t fixed = FixedBytes(*parent);
  if (IsFilledBelow(kSparsePercent, EncodedBytes(*parent) - fixed, node_bytes() - fixed)) {
    context_.store.merges.Note({nodes.level + 1, Key(parent->low())});
  }
  co_return true;
}

std::optional<InternalNode> Merger::DropDownlink(const Neighbours& nodes,
                                                 std::span<std::byte> parent) {
  const std::optional<InternalView> view = InternalView::Parse(parent, nodes.parent);
  const bool covers = view && !view->frozen() && view->level() == nodes.level + 1 &&
                      view->low() <= nodes.low.view() && view->high().Admits(nodes.separator);
  if (!covers) return std::nullopt;
  InternalNode node = view->Decode();
  const size_t index = node.ChildIndex(nodes.separator);
  const bool leads_to_both = index != 0 && node.children[index].pointer == nodes.right &&
                             node.children[index].separator == nodes.separator &&
                             node.children[index - 1].pointer == nodes.left;
  if (!leads_to_both) return std::nullopt;
  node.children.erase(node.children.begin() + static_cast<ptrdiff_t>(index));
  node.version = Next(node.version);
  EncodeInternal(parent, nodes.parent, node);  // less always fits
  return node;
}

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
    co_return context_.links.CheckReaches(op, right, node_bytes());
  }
  Result<BufferLease> buffers = context_.links.Buffer(LockedBuffers::Bytes(2 * node_bytes()));
  if (!buffers) co_return co_await locked.lock.ReleaseAfter(buffers.error());
  {
    InlineBatch<2> batch(right.server());
    const LocalAddress word = buffers.value().address(LockedBuffers::kLockWord);
    batch.Add(ReadLockOf(context_, right, word));
    batch.Add(
        Verb::Read(right.offset(), node_bytes(), buffers.value().address(LockedBuffers::kImage)));
    const Status read = co_await locked.lock.Read(batch);
    if (!read) co_return co_await locked.lock.ReleaseAfter(read.error());
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
  const Status known = own.AimAt(nodes.right);
  if (!known) co_return co_await left.lock.ReleaseAfter(known.error());
  const bool is_shared = own.place() == left.lock.place();
  Status status = Ok();
  if (!is_shared) {
    own.MarkAsMerge();
    if (!own.TryTakeTurn() && !own.TryShareTurn(left.lock)) co_return co_await left.lock.Release();
    const Verb read = Verb::Read(nodes.right.offset(), node_bytes(), image_at);
    const Result<RemoteLock::Attempt> tried = co_await own.Try({&read, 1});
    if (!tried) co_return co_await left.lock.ReleaseAfter(tried.error());
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
    static_cast<void>(co_await own.Release());  // nothing rests on what was read
  }
  if (!left.lock.is_held()) co_return status;
  if (!status) co_return co_await left.lock.ReleaseAfter(status.error());
  co_return co_await left.lock.Release();
}

}  // namespace gossamer
