// Gets, puts and deletes: what a client posts, and how it finds nodes.
#include "compute/research/sherman/tree.h"

#include <fmt/core.h>

#include "compute/research/sherman/operation.h"

namespace gossamer::sherman {

Task<Result<Value>> Tree::Get(Key key) {
  BOOST_OUTCOME_CO_TRY(buffer, Operation::Buffer(scheduler_));
  Operation op(counters_, OperationClass::kRead, std::move(buffer));
  for (;;) {
    BOOST_OUTCOME_CO_TRYV(co_await ReadLeaf(op, key));
    const LeafEntry* const entry = op.leaf().Find(key);
    if (entry == nullptr) co_return MakeError(Code::kNotFound);
    if (entry->is_consistent()) co_return entry->value();
    ++counters_.rereads;
  }
}

Task<Status> Tree::Put(Key key, Value value, Condition condition) {
  BOOST_OUTCOME_CO_TRY(buffer, Operation::Buffer(scheduler_));
  Operation op(counters_, OperationClass::kInsert, std::move(buffer));
  BOOST_OUTCOME_CO_TRY(node, co_await LockAndRead(op, key, 0));
  LeafEntry* entry = op.leaf().Find(key);
  const bool is_there = entry != nullptr;
  if (is_there) op.set_kind(OperationClass::kUpdate);
  if (condition == (is_there ? Condition::kAbsent : Condition::kPresent)) {
    BOOST_OUTCOME_CO_TRYV(co_await WriteAndUnlock(op, node, {}));
    co_return MakeError(is_there ? Code::kAlreadyExists : Code::kNotFound);
  }
  if (!is_there) entry = op.leaf().FindUnused();
  if (entry == nullptr) co_return co_await SplitLeaf(op, node, key, value);
  entry->Set(key, value);
  co_return co_await WriteEntry(op, node, *entry);
}

Task<Status> Tree::Delete(Key key) {
  BOOST_OUTCOME_CO_TRY(buffer, Operation::Buffer(scheduler_));
  Operation op(counters_, OperationClass::kDelete, std::move(buffer));
  BOOST_OUTCOME_CO_TRY(node, co_await LockAndRead(op, key, 0));
  LeafEntry* const entry = op.leaf().Find(key);
  if (entry == nullptr) {
    BOOST_OUTCOME_CO_TRYV(co_await WriteAndUnlock(op, node, {}));
    co_return MakeError(Code::kNotFound);
  }
  entry->Clear();
  co_return co_await WriteEntry(op, node, *entry);
}

// ---- verbs

Task<Status> Tree::Execute(Operation& op, Batch& batch) {
  op.CountVerbs(batch);
  op.CountRoundTrip();
  co_await scheduler_.endpoint().Execute(batch);
  if (batch.status() == VerbStatus::kSuccess) co_return Ok();
  co_return MakeError(Code::kNodeUnreachable,
                      fmt::format("memory server {} is lost ({}); a lock may stay taken for good",
                                  ToInteger(batch.server()), VerbStatusName(batch.status())));
}

Task<Result<uint64_t>> Tree::Apply(Operation& op, ServerId server, const Verb& atomic) {
  InlineBatch<1> batch(server);
  batch.Add(atomic);
  BOOST_OUTCOME_CO_TRYV(co_await Execute(op, batch));
  co_return batch.verbs()[0].old_value();
}

// ---- finding nodes

Task<Result<Tree::Place>> Tree::Find(Operation& op, Key key, uint32_t level) {
  const RootWord root = server_.root();
  Place place{root.pointer()};
  uint32_t at = root.level();
  for (uint32_t above = level + 1; above <= root.level(); ++above) {
    const std::optional<RemotePtr> child = server_.cache().Find(above, key);
    if (!child) continue;
    place = {*child, /*is_from_cache=*/true};
    at = above - 1;
    break;
  }
  ++(at == level ? counters_.cache.hits : counters_.cache.misses);
  while (at > level) {
    BOOST_OUTCOME_CO_TRYV(co_await ReadNode(op, place.node, at));
    const InternalNode& node = op.internal();
    if (node.header.Covers(key)) {
      counters_.cache.evictions += server_.cache().Put(node, server_.root().level());
      place = {node.child(node.ChildIndex(key))};
      --at;
    } else {
      BOOST_OUTCOME_CO_TRY(beyond, co_await FindBeyond(op, place, key, at));
      place = beyond;
    }
  }
  co_return place;
}

Task<Result<Tree::Place>> Tree::FindBeyond(Operation& op, Place place, Key key, uint32_t level) {
  const NodeHeader header = op.header();
  if (place.is_from_cache) {
    ++counters_.cache.stale;
    server_.cache().Forget(level + 1, key);
  }
  // The root has no sibling: there is a new one.
  if (level >= server_.root().level()) {
    BOOST_OUTCOME_CO_TRYV(co_await ReadRoot(op));
  }
  if (header.low <= key && header.sibling != 0) co_return Place{header.sibling_pointer()};
  // Right of the key: the parent's bytes were torn.
  BOOST_OUTCOME_CO_TRY(found, co_await Find(op, key, level));
  co_return found;
}

Task<Status> Tree::ReadNode(Operation& op, RemotePtr node, uint32_t level) {
  if (!server_.HasNodeAt(node)) {
    co_return MakeError(Code::kCorruption, fmt::format("no node can be at {:016x}", node.word()));
  }
  for (uint32_t reads = 0; reads < kMostReads; ++reads) {
    InlineBatch<1> batch(node.server());
    batch.Add(Verb::Read(node.offset(), kNodeBytes, op.node_address()));
    BOOST_OUTCOME_CO_TRYV(co_await Execute(op, batch));
    const bool is_whole = level == 0 ? op.leaf().is_consistent()
                                     : op.internal().is_consistent() && op.internal().is_usable();
    if (is_whole && op.header().level == level) co_return Ok();
    ++counters_.rereads;
  }
  co_return MakeError(Code::kCorruption,
                      fmt::format("no node of level {} at {:016x}", level, node.word()));
}

Task<Status> Tree::ReadLeaf(Operation& op, Key key) {
  BOOST_OUTCOME_CO_TRY(place, co_await Find(op, key, 0));
  for (;;) {
    BOOST_OUTCOME_CO_TRYV(co_await ReadNode(op, place.node, 0));
    if (op.header().Covers(key)) co_return Ok();
    BOOST_OUTCOME_CO_TRY(beyond, co_await FindBeyond(op, place, key, 0));
    place = beyond;
  }
}

// A fetch-add of 0, because atomics change the word: a READ of it may be torn.
Task<Status> Tree::ReadRoot(Operation& op) {
  const Verb read = Verb::FetchAdd(Space::kRegion, kRootOffset, 0, op.word());
  BOOST_OUTCOME_CO_TRY(word, co_await Apply(op, ServerId{0}, read));
  server_.SetRoot(RootWord::FromWord(word));
  co_return Ok();
}

}  // namespace gossamer::sherman
