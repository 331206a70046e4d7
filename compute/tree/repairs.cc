#include "compute/tree/repairs.h"

namespace gossamer {

Repairs::Repairs(TreeContext& context, ParentLinker& parents)
    : context_(context), parents_(parents) {
  context.missing.Listen([this](RemotePtr left, uint32_t level) { Start(left, level); });
}

void Repairs::Start(RemotePtr left, uint32_t level) {
  if (running_ != 0) return;
  ++running_;
  context_.links.scheduler().Spawn(Run(left, level));
}

Task<void> Repairs::Run(RemotePtr left, uint32_t level) {
  Op op;
  op.is_repair = true;
  const Status repaired = co_await Repair(op, left, level);
  static_cast<void>(repaired);
  // Its verbs belong to splits.
  context_.counters.of(OperationClass::kInsertSplit) += op.wire;
  --running_;
}

Task<Status> Repairs::Repair(Op& op, RemotePtr left, uint32_t level) {
  HighFence high;
  RemotePtr sibling;
  if (level == 0) {
    const Result<NodeReader::LeafEnd> end = co_await context_.nodes.ReadLeafEnd(op, left);
    if (!end) co_return end.error();
    high = end.value().high;
    sibling = end.value().sibling;
  } else {
    const Result<InternalNode> node = co_await context_.nodes.ReadInternal(op, left);
    if (!node) co_return node.error();
    high = node.value().high;
    sibling = node.value().sibling;
  }
  if (high.infinite || sibling.is_null()) co_return Ok();
  // Looks without the lock first: usually the client that split the node has linked it by now.
  const RootWord root = context_.cache.root();
  if (root.level() > level) {
    const Result<NodeCache::Step> path =
        co_await context_.descent.To(op, SearchGoal::Covering(high.key), level);
    if (!path) co_return path.error();
    if (path.value().node == sibling && path.value().has_parent()) co_return Ok();
  } else {
    const Result<RootWord> read = co_await context_.nodes.ReadRoot(op);
    if (!read) co_return read.error();
  }
  const Status linked =
      co_await parents_.Insert(op, level + 1, Downlinks(1, InternalNode::Child{high.key, sibling}),
                               LockedParent(context_.locks, op));
  co_return linked;
}

}  // namespace gossamer
