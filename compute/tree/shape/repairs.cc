#include "compute/tree/shape/repairs.h"

#include <utility>

namespace gossamer {

void Repairs::Start(RemotePtr left, uint32_t level, const Key& low) {
  if (running_ != 0) return;
  ++running_;
  context_.links.scheduler().Spawn(Run(left, level, low));
}

Task<void> Repairs::Run(RemotePtr left, uint32_t level, Key low) {
  const RunningOperations::Scope scope(context_.running);
  Op op = context_.links.Begin();
  op.is_repair = true;
  Status repaired = co_await Repair(op, left, level, low);
  while (!repaired && op.is_of_the_past) {
    const bool again = co_await context_.links.RecoverFrom(op, repaired.error());
    if (!again) break;
    repaired = co_await Repair(op, left, level, low);
  }
  // Its verbs belong to splits.
  context_.counters.of(OperationClass::kInsertSplit) += op.wire;
  --running_;
}

Task<Status> Repairs::Repair(Op& op, RemotePtr left, uint32_t level, const Key& low) {
  HighFence high;
  RemotePtr sibling;
  if (level == 0) {
    BOOST_OUTCOME_CO_TRY(end, co_await context_.nodes.ReadLeafEnd(op, left, low));
    high = end.high;
    sibling = end.sibling;
  } else {
    const Result<InternalNode> node = co_await context_.nodes.ReadInternal(op, left);
    if (!node) co_return node.error();
    if (node.value().level != level) co_return Ok();  // the memory is another node's by now
    high = node.value().high;
    sibling = node.value().sibling;
  }
  const bool leads_right = high.infinite || high.key.view() > low.view();
  if (high.infinite || sibling.is_null() || !leads_right) co_return Ok();
  // Looks without the lock first: usually the client that split the node has linked it by now.
  const RootWord root = context_.cache.root();
  if (root.level() > level) {
    BOOST_OUTCOME_CO_TRY(path,
                         co_await context_.descent.To(op, SearchGoal::Covering(high.key), level));
    if (path.node == sibling && path.has_parent()) co_return Ok();
  } else {
    BOOST_OUTCOME_CO_TRYV(co_await context_.nodes.ReadRoot(op));
  }
  Downlinks downlinks(1, InternalNode::Child{high.key, sibling});
  const Status linked = co_await parents_.Insert(op, level + 1, std::move(downlinks),
                                                 LockedParent(context_.locks, op));
  // A frozen internal node gets no downlink. (A frozen leaf is noted by a get.)
  if (level != 0) {
    context_.store.merges.Note({level, low, MergeQueue::Request::Kind::kUnfinished});
  }
  // Where the parent lacks so many downlinks that this one finds no room, one behind it may: that
  // makes room (LAYOUT.md).
  if (linked || linked.error().code != Code::kExhausted) co_return linked;
  co_return co_await Repair(op, sibling, level, high.key);
}

}  // namespace gossamer
