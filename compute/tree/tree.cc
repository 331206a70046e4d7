#include "compute/tree/tree.h"

#include <utility>

namespace gossamer {

Task<RangeDeletion> Tree::DeleteRange(KeyRange range,
                                      std::function<bool(uint64_t deleted)> progress) {
  std::optional<ScanRange> keys = RangeOf(std::move(range.from), std::move(range.to), range.prefix);
  if (!keys) co_return RangeDeletion{};
  ++context_.counters.of(OperationClass::kScan).operations;
  co_return co_await range_deleter_.Delete(std::move(*keys), std::move(progress));
}

Task<Result<RepairReport>> Tree::RepairLosses(LossRepairer::Options options) {
  LossRepairer repairer(context_, std::move(options));
  co_return co_await repairer.Run();
}

Task<Result<RootWord>> Tree::ReadRoot() {
  const RunningOperations::Scope scope(context_.running);
  Op op = context_.links.Begin();
  const Result<RootWord> root =
      co_await context_.links.Retry(op, [&] { return context_.nodes.ReadRoot(op); });
  co_return root;
}

Task<Result<NodeCache::Step>> Tree::FindNode(Key key, uint32_t level) {
  const RunningOperations::Scope scope(context_.running);
  Op op = context_.links.Begin();
  Result<NodeCache::Step> step = co_await context_.links.Retry(op, [&] {
    return context_.descent.To(op, SearchGoal::Covering(key), level, Descent::Trust::kNothing);
  });
  co_return step;
}

Task<Result<InternalNode>> Tree::ReadInternal(RemotePtr pointer) {
  const RunningOperations::Scope scope(context_.running);
  Op op = context_.links.Begin();
  Result<InternalNode> node =
      co_await context_.links.Retry(op, [&] { return context_.nodes.ReadInternal(op, pointer); });
  co_return node;
}

Task<Result<std::vector<std::byte>>> Tree::ReadLeaf(RemotePtr pointer, Key low) {
  const RunningOperations::Scope scope(context_.running);
  Op op = context_.links.Begin();
  const Result<BufferLease> read =
      co_await context_.links.Retry(op, [&] { return context_.nodes.ReadLeaf(op, pointer, low); });
  if (!read) co_return read.error();
  const std::byte* data = read.value().data();
  co_return std::vector<std::byte>(data, data + context_.store.parameters.node_bytes);
}

Task<Result<std::optional<std::string>>> Tree::ReadBlock(BlockRef block) {
  const RunningOperations::Scope scope(context_.running);
  Op op = context_.links.Begin();
  Result<std::optional<std::string>> value =
      co_await context_.links.Retry(op, [&] { return context_.blocks.Read(op, block); });
  co_return value;
}

}  // namespace gossamer
