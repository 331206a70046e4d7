#include "compute/lock/remote_lock.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <algorithm>
#include <cassert>
#include <string>

#include "compute/rules/rules.h"

namespace gossamer {

RemoteLock::Held::~Held() {
  CHECK(!lock_) << "the lock of word " << lock_.word.word() << " is dropped while it is held";
}

void RemoteLock::SetNode(RemotePtr node) {
  const ServerInfo* server = locks_->links.servers().Find(node.server());
  node_ = node;
  const LockPlace place{node.server(), LockSlotOffset(node, server->lock_table_bytes)};
  if (place_ != place) holder_is_dead_ = false;  // It concerned another lock.
  place_ = place;
}

bool RemoteLock::TryTakeTurn() {
  turn_.GiveUp();
  turn_ = locks_->table.TryTake(place_, locks_->links.scheduler());
  return static_cast<bool>(turn_);
}

bool RemoteLock::TryShareTurn(const RemoteLock& other) {
  assert(!HasTurn());
  turn_ = locks_->table.Share(other.turn_, place_);
  return static_cast<bool>(turn_);
}

Task<LockTable::Answer> RemoteLock::TakeTurn(LockTable::Wish* wish) {
  HasWaitedLong();  // starts the lock timeout
  LockTable::Waiter waiter(locks_->links.scheduler());
  waiter.place = place_;
  waiter.wish = wish;
  co_await locks_->table.Wait(waiter, turn_);
  held_.Set(waiter.held);
  if (held_) ++locks_->counts.handed_over;
  co_return waiter.answer;
}

// This compute server has one turn at the lock: its own word is that of the coroutine with the turn
// (rule U2).
LockWord RemoteLock::NewWord() const {
  const LockWord plain = rules::WordFor(locks_->links.LeaseWith(server()), node_);
  return is_merge_ ? plain.ForMerge() : plain;
}

Task<Status> RemoteLock::AdoptHandedOver() {
  Links& links = locks_->links;
  BOOST_OUTCOME_CO_TRYV(co_await links.Register(*op_, server()));
  if (!held_ || held_->word.lease() == links.LeaseWith(server())) co_return Ok();
  if (!IsOlder(held_->word.lease(), links.LeaseWith(server()))) {
    // This session's queue pair is one of an earlier lease, which it has not noticed.
    BOOST_OUTCOME_CO_TRYV(co_await links.Replace(*op_, links.LossOfPresent(server())));
    if (held_->word.lease() == links.LeaseWith(server())) co_return Ok();
  }
  const HeldLock void_now = held_.Take();
  co_return CheckEpoch(void_now);
}

void RemoteLock::AddTaking(Batch& batch, std::span<const Verb> reads, Taking& taking) {
  taking.word = NewWord();
  taking.expected = holder_is_dead_ ? holder_.word() : 0;
  taking.verb = batch.verbs().size();
  batch.AddMade([&] {
    return Verb::CompareSwap(Space::kLockTable, place_.slot, taking.expected, taking.word.word(),
                             taken_word_);
  });
  // Atomic before READ (O3): with the lock taken, what comes back is current.
  for (const Verb& read : reads) batch.Add(read);
}

bool RemoteLock::LearnTaken(const Taking& taking, const Batch& batch) {
  const Verb& cas = batch.verbs()[taking.verb];
  if (cas.status == VerbStatus::kPending) return true;  // it was not posted (rule R9)
  if (cas.status != VerbStatus::kSuccess) return false;
  holder_is_dead_ = false;
  if (cas.old_value() == taking.expected) {
    held_.Set({taking.word, 0});
    ++locks_->counts.acquired;
  } else {
    const LockWord holder = LockWord::FromWord(cas.old_value());
    unchanged_tries_ = holder == holder_ ? unchanged_tries_ + 1 : 0;
    holder_ = holder;
  }
  return true;
}

Task<Status> RemoteLock::FinishTaking(const Taking& taking, const Batch& batch) {
  if (LearnTaken(taking, batch)) co_return Ok();
  co_return co_await FindOutTaken(taking.word, Links::LossOf(batch));
}

Task<Result<RemoteLock::Attempt>> RemoteLock::Try(std::span<const Verb> reads, Batch* alongside) {
  assert(HasTurn());
  Links& links = locks_->links;
  for (;;) {
    if (!links.IsRegistered(server()) || !IsInEpoch()) {
      const Status own = co_await AdoptHandedOver();
      if (!own) {
        if (held_) Orphan(*held_);
        co_return own.error();
      }
    }
    const bool may_write = alongside == nullptr || links.MayUse(*op_, alongside->server());
    // Also without READs: a lock that was handed over may guard what was read for the operation
    // under an earlier lease.
    if (!may_write || !links.MayUse(*op_, server())) {
      if (held_) {
        BOOST_OUTCOME_CO_TRYV(co_await Release());
      }
      if (!may_write) op_->needs_other_memory = true;  // if it cannot register there anew
      co_return links.OfThePast(*op_, may_write ? server() : alongside->server());
    }
    const bool takes = !held_;
    const auto start = tries_ != 0 ? links.scheduler().Now() : Scheduler::Clock::time_point();
    InlineBatch<kMaxReads + 1> batch(server());
    if (takes && !rules::ReadsWithTry(tries_)) reads = {};
    Taking taking{};
    if (takes) {
      AddTaking(batch, reads, taking);
    } else {
      for (const Verb& read : reads) batch.Add(read);
    }
    Batch* const batches[] = {alongside, &batch};
    if (alongside != nullptr || !batch.empty()) co_await links.ExecuteAll(*op_, batches);
    const bool is_unknown = takes && !LearnTaken(taking, batch);
    if (takes && !is_unknown && tries_ != 0) LearnRoundTrip(links.scheduler().Now() - start);
    if (alongside != nullptr && alongside->status() != VerbStatus::kSuccess) {
      // The caller's WRITE failed: do not go on, and do not leave the lock behind.
      const Error error = Links::Unreachable(*op_, *alongside);
      if (is_unknown) {
        BOOST_OUTCOME_CO_TRYV(co_await FindOutTaken(taking.word, Links::LossOf(batch)));
      }
      if (held_) {
        BOOST_OUTCOME_CO_TRYV(co_await Release());
      }
      op_->NoteLoss(Links::LossOf(*alongside));
      op_->needs_other_memory = true;
      co_return error;
    }
    alongside = nullptr;
    if (batch.status() == VerbStatus::kSuccess) {
      co_return is_held() ? Attempt::kTaken : Attempt::kRefused;
    }
    BOOST_OUTCOME_CO_TRYV(
        co_await RecoverTry(is_unknown ? &taking.word : nullptr, Links::LossOf(batch)));
    if (!is_unknown && !held_) co_return Attempt::kRefused;
  }
}

Task<Result<RemoteLock::Attempt>> RemoteLock::FinishTry(const Taking& taking, const Batch& batch) {
  const bool is_unknown = !LearnTaken(taking, batch);
  if (batch.status() == VerbStatus::kSuccess) {
    co_return is_held() ? Attempt::kTaken : Attempt::kRefused;
  }
  if (batch.status() == VerbStatus::kPending) co_return locks_->links.OfThePast(*op_, server());
  BOOST_OUTCOME_CO_TRYV(
      co_await RecoverTry(is_unknown ? &taking.word : nullptr, Links::LossOf(batch)));
  if (!is_unknown && !held_) co_return Attempt::kRefused;
  co_return co_await Try(batch.verbs().subspan(taking.verb + 1));
}

Task<Status> RemoteLock::RecoverTry(const LockWord* unknown, Loss loss) {
  if (unknown != nullptr) co_return co_await FindOutTaken(*unknown, loss);
  Status replaced = co_await locks_->links.Replace(*op_, loss);
  if (!replaced && held_) Orphan(*held_);
  co_return replaced;
}

Status RemoteLock::CheckEpoch(const HeldLock& held) const {
  if (rules::IsOfEpoch(held.word, locks_->links.LeaseWith(server()))) return Ok();
  op_->NoteLoss({server()});  // The lease is lost, and its queue pair was replaced.
  return MakeError(Code::kFenced,
                   fmt::format("memory server {} has ended the lease under which a lock was held",
                               ToInteger(server())));
}

bool RemoteLock::MayLink() const { return locks_->memory.MayLink(linked_, server()); }

Status RemoteLock::CheckLinks() { return locks_->memory.CheckLinks(*op_, linked_, server()); }

Task<Status> RemoteLock::EnterEpoch(HeldLock held) {
  Links& links = locks_->links;
  if (links.LeaseWith(server()).incarnation == 0) {
    const Status registered = co_await links.Register(*op_, server());
    if (!registered) {
      if (held) Orphan(held);
      co_return registered;
    }
  }
  const Status same = CheckEpoch(held);
  if (!same) held_.Take();
  co_return same;
}

Task<Status> RemoteLock::Read(Batch& reads) {
  Links& links = locks_->links;
  for (;;) {
    if (links.LeaseWith(server()).incarnation == 0) {
      BOOST_OUTCOME_CO_TRYV(co_await links.Register(*op_, server()));
    }
    BOOST_OUTCOME_CO_TRYV(CheckEpoch(*held_));
    co_await links.Execute(*op_, reads);
    if (reads.status() == VerbStatus::kSuccess) co_return Ok();
    BOOST_OUTCOME_CO_TRYV(co_await links.Replace(*op_, Links::LossOf(reads)));
    if (!links.MayUse(*op_, reads.server())) co_return links.OfThePast(*op_, reads.server());
  }
}

// By CAS, from the exact word (rule L1).
// Fenced: another's word was found.
Status RemoteLock::CheckReleased(uint64_t found, const HeldLock& held) const {
  if (found == held.word.word()) return Ok();
  return MakeError(
      Code::kFenced,
      fmt::format("memory server {} has given this compute server's lock to another ({})",
                  ToInteger(server()), found));
}

// The success of the release is also what makes "absent" and "exists" count (rule L5).
Task<Status> RemoteLock::Release() {
  assert(is_held());
  if (!IsInEpoch()) {
    BOOST_OUTCOME_CO_TRYV(co_await EnterEpoch());
  }
  const HeldLock held = held_.Take();
  InlineBatch<1> batch(server());
  batch.Add(ReleaseVerb(held));
  co_await locks_->links.Execute(*op_, batch);
  if (batch.status() != VerbStatus::kSuccess)
    co_return co_await SettleRelease(held, Links::LossOf(batch));
  co_return CheckReleased(batch.verbs()[0].old_value(), held);
}

Task<Error> RemoteLock::ReleaseAfter(Error error) {
  if (!is_held()) co_return error;
  const Status released = co_await Release();
  co_return released ? error : released.error();
}

// The READ may take effect behind the release (N2).
Task<Result<RemoteLock::ReadState>> RemoteLock::ReleaseAndRead(const Verb& read) {
  BOOST_OUTCOME_CO_TRYV(co_await EnterEpoch());
  const HeldLock held = held_.Take();
  InlineBatch<2> batch(server());
  batch.Add(read);
  batch.Add(ReleaseVerb(held));
  co_await locks_->links.Execute(*op_, batch);
  if (batch.status() != VerbStatus::kSuccess) {
    BOOST_OUTCOME_CO_TRYV(co_await SettleRelease(held, Links::LossOf(batch)));
    co_return ReadState::kUnknown;
  }
  BOOST_OUTCOME_CO_TRYV(CheckReleased(batch.verbs().back().old_value(), held));
  co_return ReadState::kRead;
}

void RemoteLock::AddEnd(Batch& batch, size_t first, After after) {
  if (after == After::kRelease) batch.AddMade([this] { return ReleaseVerb(*held_); });
  pending_.Set(*held_, first, batch.verbs().size(), after);
  if (after == After::kRelease) held_.Take();
}

// One queue pair: WRITE before WRITE before atomic (O1, O2), so that the next holder of the lock,
// and every reader, sees the batch's WRITEs in their order (rule W1). A WRITE is at most one MTU
// (rule W2). A verb that ended as kUnknown may have been applied (E3).
Task<Status> RemoteLock::Commit(Batch& batch, After after,
                                const std::optional<NewVersion>& changed) {
  assert(is_held() && !batch.full());
  if (!IsInEpoch()) {
    BOOST_OUTCOME_CO_TRYV(co_await EnterEpoch());
  }
  const Status may_link = CheckLinks();
  if (!may_link) {
    BOOST_OUTCOME_CO_TRYV(co_await Release());
    co_return may_link;
  }
  AddEnd(batch, 0, after);
  co_await locks_->links.Execute(*op_, batch);
  std::optional<Status> result = ResultOf(batch);
  if (result) co_return std::move(*result);
  co_return co_await SettleCommit(batch, changed);
}

bool RemoteLock::HasWritten(const Batch& batch) const {
  const std::span<const Verb> verbs = pending_.VerbsOf(batch);
  return AreKnown(verbs) &&
         (pending_.after == After::kKeep || verbs.back().old_value() == pending_.held.word.word());
}

std::optional<Status> RemoteLock::ResultOf(const Batch& batch) const {
  const std::span<const Verb> verbs = pending_.VerbsOf(batch);
  return AreKnown(verbs) ? std::optional(Conclude(verbs)) : std::nullopt;
}

Task<Status> RemoteLock::FinishCommit(const Batch& batch,
                                      const std::optional<NewVersion>& changed) {
  std::optional<Status> result = ResultOf(batch);
  if (result) co_return std::move(*result);
  co_return co_await SettleCommit(batch, changed);
}

Status RemoteLock::Conclude(std::span<const Verb> verbs) const {
  if (pending_.after == After::kKeep) return Ok();
  // With another's word, the WRITEs were made while the lock was another's.
  Status released = CheckReleased(verbs.back().old_value(), pending_.held);
  if (released) return released;
  locks_->memory.LeaveBehind();
  released.error().code = Code::kMaybeApplied;
  return released;
}

LockTable::Waiter* RemoteLock::NextWaiter() {
  const bool may = turn_ && held_->handovers < kMaxHandovers;
  return may ? turn_.NextAt(place_) : nullptr;
}

void RemoteLock::HandOver(LockTable::Waiter& next) {
  assert(is_held());
  HeldLock held = held_.Take();
  ++held.handovers;
  turn_.HandOver(next, held);
}

}  // namespace gossamer
