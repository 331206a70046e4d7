#include "compute/lock/orphaned_locks.h"

#include <utility>

#include "compute/rules/rules.h"
#include "compute/session/registration.h"

namespace gossamer {
namespace {

// Most losses, in one round, of the queue pair over which locks are settled.
constexpr uint32_t kMostLosses = 64;

}  // namespace

void OrphanedLocks::SettleOver(Endpoint& endpoint, RemoteAllocator& allocator) {
  const std::lock_guard guard(mutex_);
  scheduler_.emplace(endpoint);
  allocator_ = &allocator;
}

void OrphanedLocks::Stop() {
  const std::lock_guard guard(mutex_);
  if (scheduler_) scheduler_->RunUntil(0);
  scheduler_.reset();
  orphans_.clear();
  const std::lock_guard news_guard(news_mutex_);
  news_.clear();
  count_of_.clear();
  count_ = 0;
}

std::unique_lock<std::mutex> OrphanedLocks::PauseFor(ServerId server) {
  std::unique_lock lock(mutex_);
  while (scheduler_ && links_[server].is_busy) {
    if (!scheduler_->RunOnce()) scheduler_->endpoint().Yield();
  }
  return lock;
}

void OrphanedLocks::Add(Orphan orphan) {
  {
    const std::lock_guard guard(news_mutex_);
    ++count_of_[orphan.place.server];
    news_.push_back(std::move(orphan));
  }
  if (count_.fetch_add(1, std::memory_order_acq_rel) == 0) events_.OnFirstOrphan();
}

void OrphanedLocks::Tend() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || !scheduler_) return;
  {
    const std::lock_guard guard(news_mutex_);
    orphans_.splice(orphans_.end(), news_);
  }
  StartDue();
  if (scheduler_->running() != 0) scheduler_->RunOnce();
}

bool OrphanedLocks::HasOn(ServerId server) {
  const std::lock_guard guard(news_mutex_);
  return count_of_[server] != 0;
}

void OrphanedLocks::TryAgain(ServerId server) {
  const std::lock_guard guard(news_mutex_);
  wanted_.insert(server);
}

uint64_t OrphanedLocks::CountFailures(ServerId server) {
  const std::lock_guard guard(news_mutex_);
  return failures_[server];
}

void OrphanedLocks::StartDue() {
  for (const Orphan& orphan : orphans_) {
    const ServerId server = orphan.place.server;
    Link& link = links_[server];
    if (link.is_busy) continue;
    {
      const std::lock_guard guard(news_mutex_);
      const bool is_wanted = wanted_.erase(server) != 0;
      if (scheduler_->Now() < link.try_at && !is_wanted) continue;
    }
    link.is_busy = true;
    scheduler_->Spawn(Settle(server));
  }
}

Task<void> OrphanedLocks::Settle(ServerId server) {
  Link& link = links_[server];
  const Clock::time_point began = scheduler_->Now();
  bool is_reached = true;
  uint32_t losses = 0;
  uint32_t silences = 0;
  for (auto orphan = orphans_.begin(); is_reached && orphan != orphans_.end();) {
    if (orphan->place.server != server) {
      ++orphan;
      continue;
    }
    const Outcome outcome = co_await SettleOne(*orphan);
    silences = outcome == Outcome::kSilent ? silences + 1 : 0;
    losses += outcome == Outcome::kLostAgain ? 1 : 0;
    is_reached =
        outcome != Outcome::kOutOfReach && silences < kMostSilences && losses < kMostLosses;
    if (outcome != Outcome::kSettled) continue;
    orphan = orphans_.erase(orphan);  // opens its place
    count_.fetch_sub(1, std::memory_order_acq_rel);
    const std::lock_guard guard(news_mutex_);
    --count_of_[server];
  }
  const Clock::duration took = scheduler_->Now() - began;
  link.is_busy = false;
  link.try_at = is_reached ? Clock::time_point{}
                           : scheduler_->Now() + RestAfterTry<Clock::duration>(took, kTryAgain);
  if (is_reached) co_return;
  const std::lock_guard guard(news_mutex_);
  ++failures_[server];
}

// Each try begins with a new queue pair, so that an earlier release of unknown status cannot land
// on a lock that this compute server has taken again with the same word.
Task<OrphanedLocks::Outcome> OrphanedLocks::SettleOne(Orphan& orphan) {
  Endpoint& endpoint = scheduler_->endpoint();
  const ServerId server = orphan.place.server;
  QueuePairRequest request;
  request.server = server;
  request.also_destroys = rules::CarrierToDestroy(orphan.carrier);
  co_await endpoint.Execute(request);  // 1 RT
  if (!request.status) co_return Outcome::kOutOfReach;
  const Clock::time_point asked_at = scheduler_->Now();
  const Result<Registration> registered = co_await RegisterOver(endpoint, server);  // 1 RT
  const bool is_silent = scheduler_->Now() - asked_at >= kSilentRegistration;
  if (!registered) co_return is_silent ? Outcome::kSilent : Outcome::kLostAgain;
  allocator_->Registered(server, registered.value());
  // The lease has ended: others may have the lock, or may take it (rule L6).
  if (orphan.held.word.lease() != registered.value().lease) co_return Outcome::kSettled;
  const Result<BufferLease> word_at = endpoint.buffers().Allocate(BufferPool::kMinBytes);
  if (!word_at) co_return Outcome::kOutOfReach;  // NoResources: later.
  InlineBatch<1> batch(server);
  batch.Add(Verb::CompareSwap(Space::kLockTable, orphan.place.slot, orphan.held.word.word(), 0,
                              word_at.value().address()));
  co_await endpoint.Execute(batch);  // 1 RT
  co_return batch.status() == VerbStatus::kSuccess ? Outcome::kSettled : Outcome::kLostAgain;
}

}  // namespace gossamer
