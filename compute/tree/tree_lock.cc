// Locks: a turn in the compute server's own queue, then the remote lock, taken by CAS from 0 with the READs of what it
// guards behind it in one batch, and released by CAS from the exact word taken (rules R4, L1, L2). Nobody waits for a
// lock while holding one.
#include <algorithm>
#include <string>

#include "common/mutants.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

// A repair finds a lock taken so many times before it gives up.
constexpr uint32_t kRepairPatience = 3;
// So often a lock is found taken before its holder may be dead.
constexpr uint32_t kTriesBeforeAsking = 8;
// Pauses between tries at a lock, in round trips: doubled from 1 up to this, so that waiters that come together part; and
// 1 once it was found taken so often, so that a waiter that has waited long comes in the round trip for which a release
// leaves the lock free.
constexpr uint64_t kLongestPause = 4;
constexpr uint32_t kPatientTries = 8;
// A lock that is found with the same word so often in a row has a holder that does nothing: milliseconds. From
// then on pauses grow, doubled after each kTriesPerDoubling, so that waiting takes little of the processor. Where others
// have the lock in turn, its word changes.
constexpr uint32_t kTriesBeforeRest = 4096;
constexpr uint32_t kTriesPerDoubling = 64;
constexpr uint64_t kLongestRestNs = 500'000;
// How long before its post a batch's epoch is checked, with that rule broken.
constexpr std::chrono::microseconds kEarly{100};
// What a round trip is taken for at least and at most.
constexpr uint64_t kShortestRoundTripNs = 500;
constexpr uint64_t kLongestRoundTripNs = 200'000;

}  // namespace

Status Tree::AimAt(NodeLock& lock, RemotePtr node) {
  BOOST_OUTCOME_TRYV(CheckPointer(node, shared_.parameters.node_bytes));
  const ServerInfo* server = shared_.servers.Find(node.server());
  lock.node = node;
  const LockPlace place{node.server(), LockSlotOffset(node, server->lock_table_bytes)};
  if (lock.place != place) lock.holder_is_dead = false;  // That was said of another lock.
  lock.place = place;
  return Ok();
}

Task<LockTable::Answer> Tree::TakeTurn(NodeLock& lock, LockTable::Wish* wish) {
  if (!shared_.options.techniques.hierarchical_locks) co_return LockTable::Answer::kTurn;
  HasWaitedLong(lock);  // It begins to wait.
  LockTable::Waiter waiter;
  waiter.scheduler = &scheduler_;
  waiter.place = lock.place;
  waiter.wish = wish;
  co_await shared_.locks.Wait(waiter, lock.turn);
  lock.held = waiter.held;
  if (lock.held) ++counters_.locks.handed_over;
  co_return waiter.answer;
}

// With hierarchical locks this compute server has one turn at the lock, so that its own word is that of whoever has the
// turn. Without, several coroutines may contend: each tells its own word by a ticket (rule U2).
LockWord Tree::WordFor(const NodeLock& lock) {
  Lease lease = LeaseWith(lock.place.server);
  if (IsBroken(Mutant::kL2)) lease.incarnation = 1;
  const LockWord word(lease, lock.node);
  if (shared_.options.techniques.hierarchical_locks) return word;
  constexpr uint64_t kTicket = (uint64_t{1} << 24) - 1;
  const uint64_t ticket = shared_.tickets.fetch_add(1, std::memory_order_relaxed) & kTicket;
  return LockWord::FromWord((word.word() & ~kTicket) | ticket);
}

Task<Status> Tree::CheckHandedOver(Operation& operation, NodeLock& lock) {
  const ServerId server = lock.place.server;
  BOOST_OUTCOME_CO_TRYV(co_await Register(operation, server));
  if (!lock.held || lock.held.word.lease() == LeaseWith(server)) co_return Ok();
  if (!IsOlder(lock.held.word.lease(), LeaseWith(server))) {
    // This session's queue pair is one of an earlier lease, which it has not noticed.
    operation.posted_at = recoveries_;
    BOOST_OUTCOME_CO_TRYV(co_await Recover(operation, server));
    if (lock.held.word.lease() == LeaseWith(server)) co_return Ok();
  }
  const HeldLock void_now = std::exchange(lock.held, {});
  co_return CheckEpoch(operation, lock, void_now);
}

// 1 RT, and none when the lock is held and there is nothing to read.
Task<Result<bool>> Tree::TryLock(Operation& operation, NodeLock& lock, std::span<const Verb> reads,
                                 LocalAddress word_at, Batch* alongside) {
  const ServerId server = lock.place.server;
  const bool combined = shared_.options.techniques.combine_commands;
  for (;;) {
    const Status own = co_await CheckHandedOver(operation, lock);
    if (!own) {
      if (lock.held) Orphan(lock, lock.held);
      co_return own.error();
    }
    const bool takes = !lock.held;
    const LockWord word = WordFor(lock);
    const uint64_t expected = lock.holder_is_dead ? lock.holder.word() : 0;
    const Scheduler::Clock::time_point start =
        lock.tries != 0 ? scheduler_.Now() : Scheduler::Clock::time_point();
    InlineBatch<kMaxReads + 1> batch(server);
    if (takes) {
      batch.Add(
          Verb::CompareSwap(Space::kLockTable, lock.place.slot, expected, word.word(), word_at));
    }
    // Atomic before READ (O3): with the lock taken, what comes back is current.
    const bool is_stale_good = IsBroken(Mutant::kR4) && takes && lock.tries != 0;
    for (const Verb& read : is_stale_good ? std::span<const Verb>() : reads) batch.Add(read);
    if (combined) {
      Batch* const batches[] = {alongside, &batch};
      if (alongside != nullptr || !batch.empty()) co_await ExecuteAll(operation, batches);
    } else {
      if (alongside != nullptr) co_await ExecuteInOrder(operation, *alongside);
      co_await ExecuteInOrder(operation, batch);
    }
    if (takes && batch.verbs()[0].status == VerbStatus::kSuccess) {
      if (lock.tries != 0) LearnRoundTrip(scheduler_.Now() - start);
      const uint64_t found = batch.verbs()[0].old_value();
      lock.holder_is_dead = false;
      if (found == expected) {
        lock.held = {word, 0};
        ++counters_.locks.acquired;
      } else {
        const LockWord holder = LockWord::FromWord(found);
        lock.unchanged_tries = holder == lock.holder ? lock.unchanged_tries + 1 : 0;
        lock.holder = holder;
      }
    }
    // Whose word stands there, if it is not known whether ours does.
    const bool is_open = takes && batch.verbs()[0].status != VerbStatus::kSuccess;
    if (alongside != nullptr && alongside->status() != VerbStatus::kSuccess) {
      // The caller's WRITE is not there; do not go on, but do not leave the lock behind either.
      const Error error = Unreachable(operation, *alongside);
      const uint64_t posted_at = operation.posted_at;
      if (is_open) {
        BOOST_OUTCOME_CO_TRYV(co_await FindOut(operation, lock, word, word_at));
      }
      if (lock.held) {
        BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, lock, word_at));
      }
      operation.lost = alongside->server();
      operation.lost_at = posted_at;
      operation.needs_other_memory = true;
      co_return error;
    }
    alongside = nullptr;
    // The READs of a CAS that failed are discarded (rule R4).
    if (batch.status() == VerbStatus::kSuccess) co_return static_cast<bool>(lock.held);
    if (is_open) {
      BOOST_OUTCOME_CO_TRYV(co_await FindOut(operation, lock, word, word_at));
    } else {
      const Status recovered = co_await Recover(operation, server);
      if (!recovered) {
        if (lock.held) Orphan(lock, lock.held);
        co_return recovered.error();
      }
      if (!lock.held) co_return false;
    }
  }
}

// After a CAS that would have written `word` has ended in an unknown way: is the lock held?
Task<Status> Tree::FindOut(Operation& operation, NodeLock& lock, LockWord word,
                           LocalAddress word_at) {
  const Result<uint64_t> found = co_await FindLockWord(operation, lock, {word, 0}, word_at);
  if (!found) co_return found.error();
  if (found.value() == word.word() && word.lease() == LeaseWith(lock.place.server)) {
    lock.held = {word, 0};
    ++counters_.locks.acquired;
  }
  co_return Ok();
}

void Tree::LearnRoundTrip(std::chrono::nanoseconds took) {
  const auto seen = static_cast<uint64_t>(took.count());
  const uint64_t bounded = std::clamp(seen, kShortestRoundTripNs, kLongestRoundTripNs);
  round_trip_ns_ += bounded / 8;
  round_trip_ns_ -= round_trip_ns_ / 8;
}

// From the first time on that it had to wait, be it for its turn.
bool Tree::HasWaitedLong(NodeLock& lock) const {
  const Scheduler::Clock::time_point now = scheduler_.Now();
  if (lock.since == Scheduler::Clock::time_point()) lock.since = now;
  return now - lock.since > std::chrono::milliseconds(shared_.options.lock_timeout_ms);
}

Task<Error> Tree::Late(const NodeLock& lock) {
  const ServerId server = lock.node.server();
  const Lease lease = lock.holder.lease();
  const bool is_own = lock.holder.word() == 0 || lease == LeaseWith(server);
  std::string holder = "other operations of this compute server";
  if (!is_own) holder = co_await DescribeHolder(scheduler_, server, lease);
  co_return MakeError(Code::kContended,
                      "the lock of server " + std::to_string(ToInteger(server)) + " offset " +
                          std::to_string(lock.node.offset()) + " could not be taken for " +
                          std::to_string(shared_.options.lock_timeout_ms) +
                          " ms, and was last held by " + holder +
                          ": try again, and if it is the same one, see whether it is stopped");
}

uint64_t Tree::LongestPauseNs(const NodeLock& lock) const {
  if (lock.tries <= kPatientTries) {
    return round_trip_ns_ * std::min(uint64_t{1} << (lock.tries - 1), kLongestPause);
  }
  if (lock.unchanged_tries <= kTriesBeforeRest) return round_trip_ns_;
  constexpr uint32_t kMostDoublings = 10;  // of the shortest round trip, to as long as a rest
  const uint32_t doublings = (lock.unchanged_tries - kTriesBeforeRest) / kTriesPerDoubling;
  return std::min(round_trip_ns_ << std::min(doublings, kMostDoublings), kLongestRestNs);
}

Task<Status> Tree::BackOff(const Operation& operation, NodeLock& lock) {
  ++counters_.locks.remote_retries;
  const uint32_t tries = ++lock.tries;
  // A read that hopped waits for its repair, but never for a lock: the next hop tries again.
  const bool gives_up = operation.is_repair && tries > kRepairPatience;
  const bool is_late = HasWaitedLong(lock);
  if (is_late) co_return co_await Late(lock);
  if (gives_up) co_return MakeError(Code::kContended);
  // A dead compute server's lock is taken from it, once its memory server has fenced it (rule L6).
  if (IsBroken(Mutant::kL6) && tries >= kTriesBeforeAsking) {
    lock.holder_is_dead = true;
    co_return Ok();
  }
  if (tries >= kTriesBeforeAsking) {
    const Result<bool> has_ended =
        co_await shared_.leases.AskWhetherEnded(scheduler_, lock.place.server, lock.holder.lease());
    lock.holder_is_dead = has_ended && has_ended.value();
    if (lock.holder_is_dead) co_return Ok();
  }
  if (!shared_.options.techniques.hierarchical_locks) co_return Ok();  // The naive design spins.
  // Between half and all of it, so that waiters do not come back together.
  const uint64_t most = LongestPauseNs(lock);
  co_await scheduler_.SleepFor(std::chrono::nanoseconds(most / 2 + Random(most / 2)));
  co_return Ok();
}

Status Tree::CheckEpoch(Operation& operation, const NodeLock& lock, const HeldLock& held) const {
  if (IsBroken(Mutant::kL2) || IsBroken(Mutant::kL4)) return Ok();
  if (held.word.lease() == LeaseWith(lock.place.server)) return Ok();
  NoteLoss(operation, lock.place.server);
  return MakeError(Code::kFenced, "memory server " + std::to_string(ToInteger(lock.place.server)) +
                                      " has ended the lease under which a lock was held");
}

Status Tree::CheckLinks(Operation& operation, const LinkedMemory& links, ServerId server) const {
  if (shared_.allocator.MayLink(links, server)) return Ok();
  operation.needs_other_memory = true;
  return MakeError(Code::kFenced,
                   "a memory server has ended the lease under which memory was "
                   "allocated for this write");
}

Task<Status> Tree::EnterEpoch(Operation& operation, NodeLock& lock, HeldLock held) {
  if (LeaseWith(lock.place.server).incarnation == 0) {
    const Status registered = co_await Register(operation, lock.place.server);
    if (!registered) {
      if (held) Orphan(lock, held);
      co_return registered;
    }
  }
  const Status same = CheckEpoch(operation, lock, held);
  if (IsBroken(Mutant::kL4Early)) co_await scheduler_.SleepFor(kEarly);
  co_return same;
}

// 1 RT. Also the verb whose success makes "absent" and "exists" count (rule L5).
Task<Status> Tree::Unlock(Operation& operation, NodeLock& lock, LocalAddress word_at) {
  BOOST_OUTCOME_CO_TRYV(co_await EnterEpoch(operation, lock, lock.held));
  const HeldLock held = std::exchange(lock.held, {});
  InlineBatch<1> batch(lock.place.server);
  batch.Add(ReleaseVerb(lock, held, word_at));
  co_await Execute(operation, batch);
  if (batch.status() != VerbStatus::kSuccess) {
    co_return co_await SettleUnlock(operation, lock, held, word_at);
  }
  co_return CheckReleased(batch.verbs()[0].old_value(), lock, held);
}

// By CAS, from the exact word (rule L1).
Verb Tree::ReleaseVerb(const NodeLock& lock, const HeldLock& held, LocalAddress word_at) {
  if (IsBroken(Mutant::kL1)) {
    std::fill_n(word_at.data, sizeof(uint64_t), std::byte{0});
    return Verb::Write(lock.place.slot, sizeof(uint64_t), word_at, Space::kLockTable);
  }
  return Verb::CompareSwap(Space::kLockTable, lock.place.slot, held.word.word(), 0, word_at);
}

// Fenced: another's word was found.
Status Tree::CheckReleased(uint64_t found, const NodeLock& lock, const HeldLock& held) {
  if (IsBroken(Mutant::kL1)) return Ok();
  if (found == held.word.word()) return Ok();
  return MakeError(Code::kFenced, "memory server " + std::to_string(ToInteger(lock.place.server)) +
                                      " has given this compute server's lock to another (" +
                                      std::to_string(found) + ")");
}

// 1 RT. One queue pair: WRITE before WRITE before atomic (O1, O2), so that the next holder of the lock, and every
// reader, sees the batch's WRITEs in their order (rule W1). A WRITE is at most one MTU (rule W2). What did not succeed
// may have been applied; that goes for kFlushed too, when what failed before it on the queue pair was another
// operation's verb and ended as kUnknown (E3).
Task<Status> Tree::Commit(Operation& operation, NodeLock& lock, Batch& batch, LocalAddress word_at,
                          AndThen and_then, const std::optional<NewVersion>& changed) {
  const HeldLock held = lock.held;
  const CommitGuard guard{held.word.lease(), lock.links};
  BOOST_OUTCOME_CO_TRYV(co_await EnterEpoch(operation, lock, held));
  const Status may_link = CheckLinks(operation, lock.links, batch.server());
  if (!may_link) {
    BOOST_OUTCOME_CO_TRYV(co_await Unlock(operation, lock, word_at));
    co_return may_link;
  }
  if (and_then == AndThen::kUnlock) {
    batch.Add(ReleaseVerb(lock, held, word_at));
    lock.held = {};
  }
  for (;;) {
    co_await ExecuteInOrder(operation, batch, &guard);
    if (batch.status() == VerbStatus::kSuccess) {
      if (and_then == AndThen::kKeep) co_return Ok();
      // Another's word: the WRITEs were made while the lock was somebody else's.
      Status released = CheckReleased(batch.verbs().back().old_value(), lock, held);
      if (!released) released.error().code = Code::kMaybeApplied;
      co_return released;
    }
    const Result<bool> applied = co_await Settle(operation, lock, held, and_then, changed, word_at);
    if (!applied) co_return applied.error();
    if (applied.value()) co_return Ok();
    Status same = co_await EnterEpoch(operation, lock, held);
    if (!same) {
      same.error().code = Code::kMaybeApplied;
      co_return same;
    }
    // What was posted before, when it was allowed, may have become reachable.
    Status again = CheckLinks(operation, lock.links, batch.server());
    if (!again) {
      lock.held = held;
      const Status unlocked = co_await Unlock(operation, lock, word_at);
      static_cast<void>(unlocked);
      again.error().code = Code::kMaybeApplied;
      co_return again;
    }
  }
}

LockTable::Waiter* Tree::NextFor(NodeLock& lock) {
  const bool may = lock.turn && lock.held.handovers < shared_.options.techniques.max_handovers;
  return may ? lock.turn.NextAt(lock.place) : nullptr;
}

void Tree::HandOver(NodeLock& lock, LockTable::Waiter& next) {
  HeldLock held = std::exchange(lock.held, {});
  ++held.handovers;
  lock.turn.HandOver(next, held);
}

}  // namespace gossamer
