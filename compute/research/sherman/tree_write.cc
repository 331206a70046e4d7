// Writes: locks, write-backs, splits and new roots.
#include "compute/research/sherman/operation.h"
#include "compute/research/sherman/tree.h"

namespace gossamer::sherman {

// ---- locks

Task<Status> Tree::Lock(Operation& op, RemotePtr node) {
  const LockPlace place = server_.LockOf(node);
  const bool is_hierarchical = server_.design().hierarchical_locks;
  if (is_hierarchical) {
    LocalLocks::Waiter waiter(scheduler_);
    if (co_await server_.locks().Take(place, waiter)) {
      ++counters_.locks.handed_over;
      co_return Ok();
    }
  }
  const Verb take = Verb::CompareSwap(Space::kLockTable, place.offset, 0, kTaken, op.word());
  for (;;) {
    const Result<uint64_t> before = co_await Apply(op, place.server, take);  // 1 RT
    if (before && before.value() == 0) break;
    if (!before) {
      if (is_hierarchical) server_.locks().Release(place, /*hands_over=*/false);
      co_return before.error();
    }
    ++counters_.locks.remote_retries;
  }
  ++counters_.locks.acquired;
  co_return Ok();
}

Task<Result<RemotePtr>> Tree::LockAndRead(Operation& op, Key key, uint32_t level) {
  BOOST_OUTCOME_CO_TRY(place, co_await Find(op, key, level));
  for (;;) {
    BOOST_OUTCOME_CO_TRYV(co_await Lock(op, place.node));
    Status read = co_await ReadNode(op, place.node, level);  // 1 RT
    if (read && op.header().Covers(key)) co_return place.node;
    Status unlocked = co_await WriteAndUnlock(op, place.node, {});
    BOOST_OUTCOME_CO_TRYV(std::move(read));
    BOOST_OUTCOME_CO_TRYV(std::move(unlocked));
    BOOST_OUTCOME_CO_TRY(beyond, co_await FindBeyond(op, place, key, level));
    place = beyond;
  }
}

Task<Status> Tree::WriteAndUnlock(Operation& op, RemotePtr node, std::span<const Verb> writes) {
  const LockPlace place = server_.LockOf(node);
  const Design& design = server_.design();
  const bool hands_over = design.hierarchical_locks && server_.locks().HandsOver(place);
  Status status = Ok();
  InlineBatch<3> batch(place.server);
  for (const Verb& write : writes) {
    batch.Add(write);
    if (design.combined_commands) continue;
    if (status) status = co_await Execute(op, batch);  // 1 RT
    batch.Reset(place.server);
  }
  // Behind the writes on their queue pair: a client that sees it sees them, too (O1, O2).
  if (!hands_over) {
    batch.Add(design.release_by_write
                  ? Verb::Write(place.offset, 1, op.zero(), Space::kLockTable)
                  : Verb::CompareSwap(Space::kLockTable, place.offset, kTaken, 0, op.word()));
  }
  if (status && !batch.empty()) status = co_await Execute(op, batch);  // 1 RT
  if (design.hierarchical_locks) server_.locks().Release(place, hands_over);
  co_return status;
}

// ---- write-backs

Task<Status> Tree::WriteNode(Operation& op, RemotePtr node) {
  const Verb write = Verb::Write(node.offset(), kNodeBytes, op.node_address());
  co_return co_await WriteAndUnlock(op, node, {&write, 1});
}

Task<Status> Tree::WriteEntry(Operation& op, RemotePtr leaf, const LeafEntry& entry) {
  if (!server_.design().two_level_versions) {
    op.leaf().BumpVersion();
    co_return co_await WriteNode(op, leaf);
  }
  const Verb write =
      Verb::Write(leaf.offset() + op.OffsetOf(entry), sizeof(LeafEntry), op.AddressOf(entry));
  co_return co_await WriteAndUnlock(op, leaf, {&write, 1});
}

Task<Status> Tree::WriteSplit(Operation& op, RemotePtr node, RemotePtr sibling) {
  const std::array<Verb, 2> writes = {
      Verb::Write(sibling.offset(), kNodeBytes, op.sibling_address()),
      Verb::Write(node.offset(), kNodeBytes, op.node_address())};
  if (sibling.server() == node.server()) co_return co_await WriteAndUnlock(op, node, writes);
  // Nothing orders the verbs to two servers (N3): the sibling is there before the node leads to it.
  InlineBatch<1> batch(sibling.server());
  batch.Add(writes[0]);
  const Status written = co_await Execute(op, batch);  // 1 RT
  if (!written) {
    // The node is as it was.
    (void)co_await WriteAndUnlock(op, node, {});
    co_return written;
  }
  co_return co_await WriteAndUnlock(op, node, {&writes[1], 1});
}

Task<Result<RemotePtr>> Tree::Allocate(Operation& op) {
  for (size_t tries = 0; tries < chunks_.size(); ++tries) {
    last_server_ = (last_server_ + 1) % chunks_.size();
    const ComputeServer::MemoryServer& server = server_.servers()[last_server_];
    std::vector<Chunk>& chunks = chunks_[last_server_];
    if (chunks.empty()) {
      const Verb take = Verb::FetchAdd(Space::kRegion, kGivenOffset, kChunkBytes, op.word());
      BOOST_OUTCOME_CO_TRY(given, co_await Apply(op, server.id, take));  // 1 RT for 256 nodes
      if (kChunksOffset + given + kChunkBytes > server.region_bytes) continue;
      chunks.push_back({kChunksOffset + given, kChunksOffset + given + kChunkBytes});
    }
    Chunk& chunk = chunks.back();
    const RemotePtr node(server.id, chunk.next, 0);
    chunk.next += kNodeBytes;
    if (chunk.next == chunk.end) chunks.pop_back();
    co_return node;
  }
  co_return MakeError(Code::kExhausted, "no memory server has memory for another node");
}

// ---- splits

Task<Status> Tree::SplitLeaf(Operation& op, RemotePtr node, Key key, Value value) {
  op.set_kind(OperationClass::kInsertSplit);
  const Result<RemotePtr> sibling = co_await Allocate(op);
  if (!sibling) {
    BOOST_OUTCOME_CO_TRYV(co_await WriteAndUnlock(op, node, {}));
    co_return sibling.error();
  }
  LeafNode& left = op.leaf();
  LeafNode& right = op.sibling_leaf();
  left.Split(right, sibling.value());
  const Key separator = right.header.low;
  (key < separator ? left : right).FindUnused()->Set(key, value);
  left.BumpVersion();
  BOOST_OUTCOME_CO_TRYV(co_await WriteSplit(op, node, sibling.value()));
  co_return co_await InsertSeparator(op, node, separator, sibling.value(), 1);
}

// The lower level's lock is not held any more: until the parent knows, siblings lead to the node.
Task<Status> Tree::InsertSeparator(Operation& op, RemotePtr left, Key separator, RemotePtr right,
                                   uint32_t level) {
  for (;; ++level) {
    while (server_.root().level() < level) {
      BOOST_OUTCOME_CO_TRY(is_made, co_await MakeRoot(op, left, separator, right, level));
      if (is_made) co_return Ok();
    }
    BOOST_OUTCOME_CO_TRY(parent, co_await LockAndRead(op, separator, level));
    InternalNode& node = op.internal();
    const uint32_t root_level = server_.root().level();
    if (!node.is_full()) {
      node.Insert(separator, right);
      node.BumpVersion();
      server_.cache().Put(node, root_level);
      co_return co_await WriteNode(op, parent);
    }
    const Result<RemotePtr> sibling = co_await Allocate(op);
    if (!sibling) {
      BOOST_OUTCOME_CO_TRYV(co_await WriteAndUnlock(op, parent, {}));
      co_return sibling.error();
    }
    InternalNode& upper = op.sibling_internal();
    node.Split(upper, sibling.value());
    (separator < upper.header.low ? node : upper).Insert(separator, right);
    node.BumpVersion();
    server_.cache().Put(node, root_level);
    server_.cache().Put(upper, root_level);
    separator = upper.header.low;
    BOOST_OUTCOME_CO_TRYV(co_await WriteSplit(op, parent, sibling.value()));
    left = parent;
    right = sibling.value();
  }
}

Task<Result<bool>> Tree::MakeRoot(Operation& op, RemotePtr left, Key separator, RemotePtr right,
                                  uint32_t level) {
  const RootWord old_root = server_.root();
  if (old_root.pointer() != left) {
    // The client that split the root makes the next one.
    BOOST_OUTCOME_CO_TRYV(co_await ReadRoot(op));
    co_return false;
  }
  BOOST_OUTCOME_CO_TRY(pointer, co_await Allocate(op));
  InternalNode& root = op.internal();
  root = {};
  root.header.level = static_cast<uint8_t>(level);
  root.header.high = kNoBound;
  root.header.leftmost = left.word();
  root.Insert(separator, right);
  InlineBatch<1> batch(pointer.server());
  batch.Add(Verb::Write(pointer.offset(), kNodeBytes, op.node_address()));
  BOOST_OUTCOME_CO_TRYV(co_await Execute(op, batch));
  const RootWord new_root(pointer, level);
  const Verb replace =
      Verb::CompareSwap(Space::kRegion, kRootOffset, old_root.word(), new_root.word(), op.word());
  BOOST_OUTCOME_CO_TRY(before, co_await Apply(op, ServerId{0}, replace));
  const bool is_made = before == old_root.word();
  server_.SetRoot(is_made ? new_root : RootWord::FromWord(before));
  co_return is_made;
}

}  // namespace gossamer::sherman
