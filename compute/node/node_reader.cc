#include "compute/node/node_reader.h"

#include <optional>
#include <span>

namespace gossamer {

Task<Result<RootWord>> NodeReader::ReadRoot(Op& op) {
  BOOST_OUTCOME_CO_TRY(buffer, links_.Buffer(BufferPool::kMinBytes));
  InlineBatch<1> batch(ServerId{0});
  batch.Add(Verb::FetchAdd(Space::kRegion, kRootWordOffset, 0, buffer.address()));
  co_await links_.Execute(op, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, batch);
  const RootWord root = RootWord::FromWord(batch.verbs()[0].old_value());
  cache_.SetRoot(op.began.flushes, root);
  co_return root;
}

template <typename Accept>
Task<Result<BufferLease>> NodeReader::ReadNode(Op& op, RemotePtr pointer, Accept accept) {
  const uint32_t bytes = store_.parameters.node_bytes;
  BOOST_OUTCOME_CO_TRY(buffer, links_.Buffer(bytes));
  const LocalAddress into = buffer.address();
  BOOST_OUTCOME_CO_TRYV(links_.CheckReaches(op, pointer, bytes));
  for (uint32_t reread = 0; reread <= kMaxNodeRereads; ++reread) {
    if (reread == kMaxNodeRereads) {
      BOOST_OUTCOME_CO_TRYV(co_await ReadUnderLock(op, pointer, into));
    } else {
      InlineBatch<1> batch(pointer.server());
      batch.Add(Verb::Read(pointer.offset(), bytes, into));
      co_await links_.Execute(op, batch);
      if (batch.status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, batch);
    }
    if (accept(std::span<const std::byte>(into.data, bytes))) co_return std::move(buffer);
    ++rereads_;
    co_await pauses_.After(reread);
  }
  co_return CorruptNode(pointer, "a node that fails its checksums under its lock");
}

Task<Result<InternalNode>> NodeReader::ReadInternal(Op& op, RemotePtr pointer) {
  std::optional<InternalNode> node;
  const auto decode = [&node, pointer](std::span<const std::byte> image) {
    node = DecodeInternal(image, pointer);
    return node.has_value();
  };
  BOOST_OUTCOME_CO_TRYV(co_await ReadNode(op, pointer, decode));
  co_return std::move(*node);
}

Task<Result<BufferLease>> NodeReader::ReadLeaf(Op& op, RemotePtr pointer, KeyView low) {
  return ReadNode(op, pointer, [this, pointer, low](std::span<const std::byte> image) {
    return LeafView::Parse(image, pointer, store_.geometry, low).has_value();
  });
}

Task<Result<NodeReader::LeafEnd>> NodeReader::ReadLeafEnd(Op& op, RemotePtr pointer, KeyView low) {
  LeafEnd end;
  const auto find_end = [&](std::span<const std::byte> image) {
    const std::optional<LeafView> leaf = LeafView::Parse(image, pointer, store_.geometry, low);
    if (leaf) end = {leaf->high(), leaf->trailer().sibling()};
    return leaf.has_value();
  };
  BOOST_OUTCOME_CO_TRYV(co_await ReadNode(op, pointer, find_end));
  co_return end;
}

// Not under the lock, which may be that of other memory: the pointer may lead anywhere.
Task<Result<std::optional<Key>>> NodeReader::ReadLowFence(Op& op, RemotePtr pointer) {
  const uint32_t bytes = store_.parameters.node_bytes;
  const Status connected = links_.CheckReaches(op, pointer, bytes);
  if (!connected && connected.error().code != Code::kCorruption) co_return connected.error();
  if (!connected) co_return std::optional<Key>();
  BOOST_OUTCOME_CO_TRY(buffer, links_.Buffer(bytes));
  const std::span<const std::byte> image(buffer.data(), bytes);
  for (uint32_t reread = 0; reread < kMaxNodeRereads; ++reread) {
    InlineBatch<1> batch(pointer.server());
    batch.Add(Verb::Read(pointer.offset(), bytes, buffer.address()));
    co_await links_.Execute(op, batch);  // 1 RT
    if (batch.status() != VerbStatus::kSuccess) co_return Links::Unreachable(op, batch);
    if (const auto node = InternalView::Parse(image, pointer)) {
      co_return std::optional<Key>(Key(node->low()));
    }
    const auto trailer = TrailerView::Parse(image.subspan(store_.geometry.trailer_offset()),
                                            pointer, store_.geometry);
    if (trailer) {
      const std::optional<KeyView> low = trailer->low().whole();
      co_return low ? std::optional<Key>(Key(*low)) : std::nullopt;
    }
    ++rereads_;
    co_await pauses_.After(reread);
  }
  co_return std::optional<Key>();
}

// No client writes the node while its lock is held: the bytes are whole, if it is still this node.
// Requires (unchecked): the caller has no turn.
// Cost: 2 RT.
Task<Status> NodeReader::ReadUnderLock(Op& op, RemotePtr pointer, LocalAddress into) {
  BOOST_OUTCOME_CO_TRY(word, links_.Buffer(BufferPool::kMinBytes));
  RemoteLock lock(locks_, op);
  lock.UseWords(word.address(), word.address());
  BOOST_OUTCOME_CO_TRYV(lock.AimAt(pointer));
  const Verb read = Verb::Read(pointer.offset(), store_.parameters.node_bytes, into);
  BOOST_OUTCOME_CO_TRYV(co_await lock.Take({&read, 1}));
  co_return co_await lock.Release();
}

}  // namespace gossamer
