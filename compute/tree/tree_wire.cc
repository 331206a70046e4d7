// How a tree talks to the fabric: accounting, errors, waiting.
#include <string>

#include "compute/tree/tree.h"

namespace gossamer {

Tree::Tree(TreeShared& shared, Scheduler& scheduler)
    : shared_(shared),
      scheduler_(scheduler),
      reader_(shared.cache.epochs()),
      random_(shared.seeds.fetch_add(2, std::memory_order_relaxed) | 1) {}

void Tree::Account(Operation& operation, const Batch& batch) {
  for (const Verb& verb : batch.verbs()) {
    switch (verb.opcode) {
      case Opcode::kRead:
        ++operation.wire.reads;
        operation.wire.bytes_read += verb.length;
        break;
      case Opcode::kWrite:
        ++operation.wire.writes;
        operation.wire.bytes_written += verb.length;
        break;
      case Opcode::kCompareSwap:
      case Opcode::kFetchAdd: ++operation.wire.cas; break;
    }
  }
}

void Tree::Finish(const Operation& operation, OperationClass kind, const Error* error) {
  WireCounts& total = counters_.of(kind);
  total += operation.wire;
  const bool answered =
      error == nullptr || error->code == Code::kNotFound || error->code == Code::kAlreadyExists;
  if (answered) ++total.operations;
}

Error Tree::Unreachable(Operation& operation, const Batch& batch) {
  NoteLoss(operation, batch.server());
  return MakeError(Code::kNodeUnreachable,
                   "memory server " + std::to_string(ToInteger(batch.server())) +
                       " cannot be reached (" + std::string(VerbStatusName(batch.status())) + ")");
}

Status Tree::CheckKey(KeyView key) const {
  if (key.size() > shared_.parameters.max_key_bytes) {
    return MakeError(Code::kInvalidArgument, "a key of " + std::to_string(key.size()) +
                                                 " bytes: this store takes at most " +
                                                 std::to_string(shared_.parameters.max_key_bytes));
  }
  return Ok();
}

Status Tree::CheckPointer(RemotePtr pointer, uint64_t bytes) {
  if (ToInteger(pointer.server()) >= Servers::kMaxServers) {
    return CorruptNode(pointer, "a pointer to a memory server that cannot be");
  }
  const ServerInfo* server = shared_.servers.Find(pointer.server());
  if (server == nullptr) {
    BOOST_OUTCOME_TRYV(shared_.learn_server(pointer.server()));
    server = shared_.servers.Find(pointer.server());
  }
  if (pointer.offset() < kFirstLeafOffset || pointer.offset() + bytes > server->region_bytes) {
    return CorruptNode(pointer, "a pointer outside the memory server's region");
  }
  return Ok();
}

Error Tree::CorruptNode(RemotePtr pointer, std::string_view what) {
  return MakeError(Code::kCorruption, std::string(what) + ": server " +
                                          std::to_string(ToInteger(pointer.server())) + " offset " +
                                          std::to_string(pointer.offset()) + " generation " +
                                          std::to_string(pointer.generation()));
}

Task<void> Tree::ExecuteInOrder(Operation& operation, Batch& batch, const CommitGuard* guard) {
  if (shared_.options.techniques.combine_commands) {
    co_await Execute(operation, batch);
    co_return;
  }
  for (Verb& verb : batch.verbs()) verb.status = VerbStatus::kPending;
  for (Verb& verb : batch.verbs()) {
    InlineBatch<1> single(batch.server());
    single.Add(verb);
    const bool may_post =
        guard == nullptr || (guard->epoch == LeaseWith(batch.server()) &&
                             shared_.allocator.MayLink(guard->links, batch.server()));
    if (!may_post) {
      verb.status = VerbStatus::kFlushed;
      co_return;
    }
    co_await Execute(operation, single);
    verb.status = single.status();
    if (verb.status != VerbStatus::kSuccess) co_return;
    // Nothing is read under a lock that could not be taken.
    const bool lost = verb.opcode == Opcode::kCompareSwap && verb.old_value() != verb.compare;
    if (lost) {
      for (Verb& skipped : batch.verbs()) skipped.status = VerbStatus::kSuccess;
      co_return;
    }
  }
}

// xorshift64 (Marsaglia '03).
uint64_t Tree::Random(uint64_t below) {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return random_ % below;
}

// At once for the first few attempts, then 1 us, 2 us, ... 1 ms, each drawn between half and all of that.
Task<void> Tree::Pause(uint32_t attempt) {
  constexpr uint32_t kAtOnce = 2;
  constexpr uint32_t kLongestShift = 10;
  if (attempt < kAtOnce) co_return;
  const uint64_t most_ns = uint64_t{1000} << std::min(attempt - kAtOnce, kLongestShift);
  co_await scheduler_.SleepFor(std::chrono::nanoseconds(most_ns / 2 + Random(most_ns / 2)));
}

}  // namespace gossamer
