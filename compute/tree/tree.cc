#include "compute/tree/tree.h"

namespace gossamer {

Task<Result<RootWord>> Tree::ReadRoot() {
  Op op;
  const Result<RootWord> root =
      co_await context_.links.Retry(op, [&] { return context_.nodes.ReadRoot(op); });
  co_return root;
}

Task<Result<InternalNode>> Tree::ReadInternal(RemotePtr pointer) {
  Op op;
  Result<InternalNode> node =
      co_await context_.links.Retry(op, [&] { return context_.nodes.ReadInternal(op, pointer); });
  co_return node;
}

Task<Result<std::vector<std::byte>>> Tree::ReadLeaf(RemotePtr pointer) {
  Op op;
  const Result<BufferLease> read =
      co_await context_.links.Retry(op, [&] { return context_.nodes.ReadLeaf(op, pointer); });
  if (!read) co_return read.error();
  const std::byte* data = read.value().data();
  co_return std::vector<std::byte>(data, data + context_.store.parameters.node_bytes);
}

Task<Result<std::optional<std::string>>> Tree::ReadBlock(BlockRef block) {
  Op op;
  Result<std::optional<std::string>> value =
      co_await context_.links.Retry(op, [&] { return context_.blocks.Read(op, block); });
  co_return value;
}

}  // namespace gossamer
