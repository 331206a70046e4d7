// ParentLinker where there is no level above: makes a new root.
#include <optional>
#include <utility>

#include "compute/rules/rules.h"
#include "compute/tree/parent_link.h"

namespace gossamer {

Task<Result<ParentLinker::Raised>> ParentLinker::RaiseRoot(Op& op, RootWord old_root,
                                                           const InternalNode::Child& child) {
  const uint32_t level = old_root.level() + 1;
  const uint32_t bytes = context_.store.parameters.node_bytes;
  Result<BufferLease> lease = context_.links.Buffer(bytes + BufferPool::kMinBytes);
  if (!lease) co_return lease.error();
  // The CAS goes out on a queue pair of the lease in force when the node was allocated (rule U4).
  BOOST_OUTCOME_CO_TRYV(co_await context_.links.Register(op, ServerId{0}));
  Result<Allocated<RemotePtr>> allocated =
      co_await context_.memory.AllocateNode(op, ServerId{0}, NodeKind::kInternal);
  if (!allocated) co_return allocated.error();
  allocated.value().Posted();
  LinkedMemory links;
  links.Add(allocated.value().stamp());
  const RemotePtr pointer = allocated.value().pointer();
  // The old root is the leftmost node of its level: it was the only one.
  InternalNode node;
  node.version = NodeVersion{1};
  node.level = static_cast<uint8_t>(level);
  node.children = {{Key(), old_root.pointer()}, child};
  EncodeInternal({lease.value().data(), bytes}, pointer, node);
  {
    InlineBatch<1> batch(pointer.server());
    batch.Add(Verb::Write(pointer.offset(), bytes, lease.value().address()));
    co_await context_.links.Execute(op, batch);
    if (batch.status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, batch);
  }
  BOOST_OUTCOME_CO_TRYV(context_.memory.CheckLinks(op, links, ServerId{0}));
  const RootWord new_root(pointer, level);
  const Result<std::optional<RootWord>> found =
      co_await SwapRoot(op, old_root, new_root, lease.value().address(bytes));
  if (!found) co_return found.error();
  // Unknown: the new node may have been the root in between, so it stays.
  if (!found.value()) co_return Raised::kByAnother;
  if (*found.value() != old_root) {
    allocated.value().GiveBack();
    context_.cache.SetRoot(*found.value());
    co_return Raised::kByAnother;
  }
  context_.cache.Insert(pointer, node);
  context_.cache.SetRoot(new_root);
  co_return Raised::kByUs;
}

Task<Result<std::optional<RootWord>>> ParentLinker::SwapRoot(Op& op, RootWord old_root,
                                                             RootWord new_root,
                                                             LocalAddress word_at) {
  InlineBatch<1> batch(ServerId{0});
  batch.Add(Verb::CompareSwap(Space::kRegion, kRootWordOffset, old_root.word(), new_root.word(),
                              word_at));
  co_await context_.links.Execute(op, batch);
  if (batch.status() == VerbStatus::kSuccess) {
    co_return std::optional(RootWord::FromWord(batch.verbs()[0].old_value()));
  }
  BOOST_OUTCOME_CO_TRYV(co_await context_.links.Replace(op, ServerId{0}));
  const Result<RootWord> root = co_await context_.nodes.ReadRoot(op);
  if (!root) co_return root.error();
  if (root.value() != new_root) co_return std::optional<RootWord>();
  co_return std::optional(old_root);
}

}  // namespace gossamer
