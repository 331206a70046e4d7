// ParentLinker where a merge of internal nodes was not finished: has the left one take over the
// children of the right one.
#include <cassert>
#include <utility>

#include "compute/tree/shape/node_union.h"
#include "compute/tree/shape/parent_link.h"

namespace gossamer {

Task<Result<std::optional<RemotePtr>>> ParentLinker::Absorb(Op& op, uint32_t level,
                                                            const Key& key) {
  assert(level > 0);
  const uint32_t bytes = context_.store.parameters.node_bytes;
  const std::optional<RemotePtr> nothing;
  const Result<NodeCache::Step> path =
      co_await context_.descent.To(op, SearchGoal::Covering(key), level);
  if (!path) co_return path.error();
  if (path.value().level != level) co_return nothing;
  LockedParent left(context_.locks, op);
  BOOST_OUTCOME_CO_TRYV(AllocateBuffers(left));
  BOOST_OUTCOME_CO_TRYV(co_await left.lock.AimAt(path.value().node));
  BOOST_OUTCOME_CO_TRYV(co_await context_.links.Register(op, left.lock.server()));
  if (!left.lock.TryTakeTurn()) co_return nothing;
  const Verb read = ReadParent(left);
  const Result<RemoteLock::Attempt> tried = co_await left.lock.Try({&read, 1});
  if (!tried) co_return tried.error();
  if (tried.value() == RemoteLock::Attempt::kRefused) co_return nothing;
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
    const Status linked =
        co_await Insert(op, level + 1, std::move(above), LockedParent(context_.locks, op));
    static_cast<void>(linked);  // the next hop makes the downlinks (rule W6)
  }
  co_return std::optional(right);
}

}  // namespace gossamer
