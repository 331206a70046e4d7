// Locks: a turn in the compute server's own queue, then the remote lock, taken by CAS from 0 with the READs of what it
// guards behind it in one batch, and released by CAS from the exact word taken (rules R4, L1, L2). Nobody waits for a
// lock while holding one.
#include <algorithm>
#include <string>

#include "compute/tree/tree.h"

namespace gossamer {
namespace {

// A repair finds a lock taken so many times before it gives up.
constexpr uint32_t kRepairPatience = 3;
// A try at a lock comes at most so many round trips after the one before it, whatever the contention: who holds it
// leaves it free for about one, each time.
constexpr uint64_t kLongestWait = 16;
// What a round trip is taken for at least and at most.
constexpr uint64_t kShortestRoundTrip_ns = 500;
constexpr uint64_t kLongestRoundTrip_ns = 200'000;

}  // namespace

Status Tree::AimAt(NodeLock& lock, RemotePtr node) {
  BOOST_OUTCOME_TRYV(CheckPointer(node, shared_.parameters.node_bytes));
  const ServerInfo* server = shared_.servers.Find(node.server());
  lock.node = node;
  lock.place = {node.server(), LockSlotOffset(node, server->lock_table_bytes)};
  return Ok();
}

Task<LockTable::Answer> Tree::TakeTurn(NodeLock& lock, LockTable::Wish* wish) {
  if (!shared_.options.techniques.hierarchical_locks) co_return LockTable::Answer::kTurn;
  LockTable::Waiter waiter;
  waiter.scheduler = &scheduler_;
  waiter.place = lock.place;
  waiter.wish = wish;
  co_await shared_.locks.Wait(waiter, lock.turn);
  lock.held = waiter.held;
  if (lock.held) ++counters_.locks.handed_over;
  co_return waiter.answer;
}

// 1 RT, and none when the lock is held and there is nothing to read.
Task<Result<bool>> Tree::TryLock(Operation& operation, NodeLock& lock, std::span<const Verb> reads,
                                 LocalAddress word_at, Batch* alongside) {
  const ServerId server = lock.place.server;
  const bool combined = shared_.options.techniques.combine_commands;
  const bool takes = !lock.held;
  const LockWord word(shared_.servers.Find(server)->lease, lock.node);
  const Scheduler::Clock::time_point start =
      lock.tries != 0 ? scheduler_.Now() : Scheduler::Clock::time_point();
  if (!takes) {
    BOOST_OUTCOME_CO_TRYV(CheckEpoch(lock));
  }
  if (alongside != nullptr && !combined) {
    co_await ExecuteInOrder(operation, *alongside);
  }
  InlineBatch<kMaxReads + 1> batch(server);
  if (takes) {
    batch.Add(Verb::CompareSwap(Space::kLockTable, lock.place.slot, 0, word.word(), word_at));
    if (!combined) {
      co_await Execute(operation, batch);
    }
  }
  const bool lost = !combined && takes &&
                    (batch.status() != VerbStatus::kSuccess || batch.verbs()[0].old_value() != 0);
  if (!lost) {
    // Atomic before READ (O3): with the lock taken, what comes back is current.
    InlineBatch<kMaxReads> alone(server);
    Batch& list = combined ? static_cast<Batch&>(batch) : alone;
    for (const Verb& read : reads) list.Add(read);
    if (combined) {
      Batch* const batches[] = {alongside, &batch};
      if (alongside != nullptr || !batch.empty()) co_await ExecuteAll(operation, batches);
    } else if (!alone.empty()) {
      co_await ExecuteInOrder(operation, alone);
    }
    if (list.status() != VerbStatus::kSuccess) co_return Unreachable(list);
  }
  if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
  if (takes) {
    if (lock.tries != 0) LearnRoundTrip(scheduler_.Now() - start);
    const uint64_t found = batch.verbs()[0].old_value();
    if (found == 0) {
      lock.held = {word, 0};
      ++counters_.locks.acquired;
    } else {
      // The READs came before the lock was ours: discarded (rule R4).
      lock.holder = LockWord::FromWord(found);
    }
  }
  if (alongside != nullptr && alongside->status() != VerbStatus::kSuccess) {
    // The caller's WRITE is not there; do not go on, but do not leave the lock behind either.
    if (lock.held) {
      BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, lock, word_at));
    }
    co_return Unreachable(*alongside);
  }
  co_return static_cast<bool>(lock.held);
}

void Tree::LearnRoundTrip(std::chrono::nanoseconds took) {
  const auto seen = static_cast<uint64_t>(took.count());
  const uint64_t bounded = std::clamp(seen, kShortestRoundTrip_ns, kLongestRoundTrip_ns);
  round_trip_ns_ += bounded / 8;
  round_trip_ns_ -= round_trip_ns_ / 8;
}

Task<Status> Tree::BackOff(const Operation& operation, NodeLock& lock) {
  ++counters_.locks.remote_retries;
  const Scheduler::Clock::time_point now = scheduler_.Now();
  if (lock.tries == 0) lock.since = now;
  const uint32_t tries = ++lock.tries;
  // A read that hopped waits for its repair, but never for a lock: whoever hops next tries again.
  const bool gives_up = operation.is_repair && tries > kRepairPatience;
  const std::chrono::milliseconds bound(shared_.options.lock_timeout_ms);
  if (gives_up || now - lock.since > bound) {
    const Lease lease = lock.holder.lease();
    co_return MakeError(
        Code::kContended,
        "the lock of server " + std::to_string(ToInteger(lock.node.server())) + " offset " +
            std::to_string(lock.node.offset()) + " stayed with compute server " +
            std::to_string(static_cast<uint16_t>(lease.compute)) + " (incarnation " +
            std::to_string(lease.incarnation) + ") for " + std::to_string(bound.count()) + " ms");
  }
  if (!shared_.options.techniques.hierarchical_locks) co_return Ok();  // The naive design spins.
  // Between half and all of 1, 2, 4, ... 16 round trips, so that those who wait do not come back together.
  const uint64_t most =
      round_trip_ns_ * std::min(uint64_t{1} << std::min(tries - 1, 8u), kLongestWait);
  co_await scheduler_.SleepFor(std::chrono::nanoseconds(most / 2 + Random(most / 2)));
  co_return Ok();
}

Status Tree::CheckEpoch(const NodeLock& lock) const {
  const Lease lease = shared_.servers.Find(lock.place.server)->lease;
  if (lock.held.word.lease() == lease) return Ok();
  return MakeError(Code::kFenced, "memory server " + std::to_string(ToInteger(lock.place.server)) +
                                      " ended the lease under which a lock was held");
}

// 1 RT. Also the verb whose success makes "absent" and "exists" count (rule L5).
Task<Status> Tree::Unlock(Operation& operation, NodeLock& lock, LocalAddress word_at) {
  BOOST_OUTCOME_CO_TRYV(CheckEpoch(lock));
  const HeldLock held = std::exchange(lock.held, {});
  InlineBatch<1> batch(lock.place.server);
  batch.Add(Verb::CompareSwap(Space::kLockTable, lock.place.slot, held.word.word(), 0, word_at));
  co_await Execute(operation, batch);
  if (batch.status() != VerbStatus::kSuccess) co_return Unreachable(batch);
  co_return CheckReleased(batch.verbs()[0].old_value(), lock, held);
}

// Fenced: another's word was found.
Status Tree::CheckReleased(uint64_t found, const NodeLock& lock, const HeldLock& held) {
  if (found == held.word.word()) return Ok();
  return MakeError(Code::kFenced, "memory server " + std::to_string(ToInteger(lock.place.server)) +
                                      " has given this compute server's lock to another (" +
                                      std::to_string(found) +
                                      "): its lease has ended; open the store again");
}

// 1 RT. One queue pair: WRITE before WRITE before atomic (O1, O2), so that whoever has the lock next, and every
// reader, sees the batch's WRITEs in their order (rule W1). A WRITE is at most one MTU (rule W2).
Task<Status> Tree::Commit(Operation& operation, NodeLock& lock, Batch& batch, LocalAddress word_at,
                          AndThen and_then) {
  BOOST_OUTCOME_CO_TRYV(CheckEpoch(lock));
  const HeldLock held = lock.held;
  if (and_then == AndThen::kUnlock) {
    batch.Add(Verb::CompareSwap(Space::kLockTable, lock.place.slot, held.word.word(), 0, word_at));
    lock.held = {};
  }
  co_await ExecuteInOrder(operation, batch);
  co_return CommitStatus(batch.server(), batch.verbs(), lock,
                         and_then == AndThen::kUnlock ? held : HeldLock());
}

// Whatever did not succeed may have been applied. That goes for kFlushed too, when what failed before it on the queue
// pair was another operation's verb and ended as kUnknown (E3); and for a WRITE that was made while the lock was
// somebody else's (rule U2).
Status Tree::CommitStatus(ServerId server, std::span<const Verb> verbs, const NodeLock& lock,
                          const HeldLock& released) {
  for (const Verb& verb : verbs) {
    if (verb.status == VerbStatus::kSuccess) continue;
    return MakeError(Code::kMaybeApplied, "memory server " + std::to_string(ToInteger(server)) +
                                              " was lost during the write (" +
                                              std::string(VerbStatusName(verb.status)) +
                                              "): read to find out");
  }
  if (!released) return Ok();
  Status status = CheckReleased(verbs.back().old_value(), lock, released);
  if (!status) status.error().code = Code::kMaybeApplied;
  return status;
}

LockTable::Waiter* Tree::NextFor(NodeLock& lock) {
  const bool may = lock.turn && lock.held.handovers < shared_.options.max_handovers;
  return may ? lock.turn.NextAt(lock.place) : nullptr;
}

void Tree::HandOver(NodeLock& lock, LockTable::Waiter& next) {
  HeldLock held = std::exchange(lock.held, {});
  ++held.handovers;
  lock.turn.HandOver(next, held);
}

}  // namespace gossamer
