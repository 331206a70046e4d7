#include "compute/tree/shape/merger.h"

#include <algorithm>
#include <utility>

#include "compute/rules/rules.h"
#include "compute/session/server_batches.h"
#include "compute/tree/shape/merge_parts.h"

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
    const Result<RootWord> root = co_await context_.nodes.ReadRoot(op);
    if (!root) co_return root.error();
    if (root.value().level() <= request.level) {
      co_return co_await LowerRoot(op, request.level, root.value());
    }
  }
  const Result<std::optional<Neighbours>> found = co_await Look(op, request.level, request.key);
  if (!found) co_return found.error();
  if (!found.value()) co_return std::optional<bool>();
  const Result<bool> merged = co_await Merge(op, *found.value());
  if (!merged) co_return merged.error();
  if (merged.value()) NoteNext(*found.value());
  co_return std::optional(merged.value());
}

// 1 RT to read the root.
Task<Result<std::optional<bool>>> Merger::LowerRoot(Op& op, uint32_t level, RootWord root) {
  if (root.level() < level) co_return std::optional<bool>();
  const Result<InternalNode> node = co_await context_.nodes.ReadInternal(op, root.pointer());
  if (!node) co_return node.error();
  if (node.value().children.size() != 1 || !node.value().high.infinite) {
    co_return std::optional<bool>();
  }
  const Result<bool> lowered = co_await parents_.height().Lower(op, root);
  if (!lowered) co_return lowered.error();
  if (lowered.value()) context_.store.merges.Note({root.level() - 1, Key()});
  co_return std::optional(lowered.value());
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
  const Result<std::optional<RemotePtr>> absorbed = co_await parents_.Absorb(op, level, key);
  if (!absorbed) co_return absorbed.error();
  if (absorbed.value()) context_.memory.FreeNode(op, *absorbed.value());
  co_return Ok();
}

// 1 RT to read the parent, and 1 RT for the node and its neighbours.
Task<Result<std::optional<Neighbours>>> Merger::Look(Op& op, uint32_t level, const Key& key) {
  const std::optional<Neighbours> nothing;
  const SearchGoal goal = SearchGoal::Covering(key);
  const Result<NodeCache::Step> path = co_await context_.descent.To(op, goal, level);
  if (!path) co_return path.error();
  if (path.value().level != level || !path.value().has_parent()) co_return nothing;
  const RemotePtr at = path.value().parent;
  const Result<InternalNode> parent = co_await context_.nodes.ReadInternal(op, at);
  if (!parent) {
    context_.cache.ForgetPath(path.value());
    co_return parent.error();
  }
  const InternalNode& above = parent.value();
  if (above.was_root()) {
    const Result<bool> lowered = co_await parents_.height().Lower(op, RootWord(at, above.level));
    if (!lowered) co_return lowered.error();
  }
  const bool covers = above.level == level + 1 && !above.frozen && !goal.IsBefore(above.low()) &&
                      !goal.IsBeyond(above.high);
  if (!covers) {
    context_.cache.ForgetPath(path.value());
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
    BOOST_OUTCOME_CO_TRYV(co_await context_.links.ConnectFor(child, node_bytes()));
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
  Result<BufferLease> merged = context_.links.Buffer(node_bytes());
  if (!merged) co_return merged.error();
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
                  AreWorthAMerge(both) && both.Encode({merged.value().data(), node_bytes()}, hint);
  }
  if (!is_possible) {
    co_await parts.ReleaseAll();
    if (!locked) co_return locked.error();
    co_return false;
  }
  if (rules::FreezesFirst()) both.Freeze(parts.image(MergeParts::kRight));

  const Status committed = co_await parts.Commit(nodes, both, *parent, merged.value().address());
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

}  // namespace gossamer
