#include "compute/tree/tree.h"

#include <utility>

namespace gossamer {
namespace {

// Runs read(op) as an operation of its own, again after losses.
template <typename Read>
auto Retried(TreeContext& context, Read read) -> decltype(read(std::declval<Op&>())) {
  const RunningOperations::Scope scope(context.running);
  Op op = context.links.Begin();
  auto result = co_await context.links.Retry(op, [&] { return read(op); });
  co_return result;
}

}  // namespace

Task<Result<RootWord>> Tree::ReadRoot() {
  return Retried(context_, [this](Op& op) { return context_.nodes.ReadRoot(op); });
}

Task<Result<NodeCache::Step>> Tree::FindNode(Key key, uint32_t level) {
  return Retried(context_, [this, key, level](Op& op) {
    return context_.descent.To(op, SearchGoal::Covering(key), level, Descent::Trust::kNothing);
  });
}

Task<Result<InternalNode>> Tree::ReadInternal(RemotePtr pointer) {
  return Retried(context_,
                 [this, pointer](Op& op) { return context_.nodes.ReadInternal(op, pointer); });
}

Task<Result<std::vector<std::byte>>> Tree::ReadLeaf(RemotePtr pointer, Key low) {
  const Result<BufferLease> read =
      co_await Retried(context_, [&](Op& op) { return context_.nodes.ReadLeaf(op, pointer, low); });
  if (!read) co_return read.error();
  const std::byte* data = read.value().data();
  co_return std::vector<std::byte>(data, data + context_.store.parameters.node_bytes);
}

Task<Result<std::optional<std::string>>> Tree::ReadBlock(BlockRef block) {
  return Retried(context_, [this, block](Op& op) { return context_.blocks.Read(op, block); });
}

}  // namespace gossamer
