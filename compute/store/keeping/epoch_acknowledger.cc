#include "compute/store/keeping/epoch_acknowledger.h"

#include <algorithm>

#include "compute/rules/rules.h"

namespace gossamer {

void EpochAcknowledger::Learn(ServerId server, uint32_t present, uint32_t acknowledged) {
  Epochs& epochs = servers_[server];
  epochs.present = present;
  epochs.acknowledged = std::max(epochs.acknowledged, acknowledged);
}

uint32_t EpochAcknowledger::AcknowledgedTo(ServerId server) const {
  const auto known = servers_.find(server);
  return known == servers_.end() ? 0 : known->second.acknowledged;
}

bool EpochAcknowledger::MayAcknowledge(ServerId server) const {
  RemoteAllocator& allocator = store_.allocator;
  return !store_.orphans.HasOn(server) && !allocator.UnknownReturn(server) &&
         !allocator.HasReturnsUnderWay(server);
}

bool EpochAcknowledger::is_busy() const {
  return phase_ != Phase::kIdle || std::ranges::any_of(servers_, [this](const auto& server) {
           const auto& [id, epochs] = server;
           return epochs.present != epochs.acknowledged && MayAcknowledge(id);
         });
}

bool EpochAcknowledger::Tend(Scheduler& scheduler) {
  switch (phase_) {
    case Phase::kIdle:
      if (!is_busy() || !rules::HaveEnded(store_.running.EarlierHaveEnded())) return false;
      for (auto& [server, epochs] : servers_) epochs.awaited = epochs.present;
      store_.cache.Clear();
      // What begins from here on finds nothing of before. What began before the line above brings
      // nothing into the cache.
      store_.running.StartPeriod();
      phase_ = Phase::kOperations;
      return false;
    case Phase::kOperations:
      if (!rules::HaveEnded(store_.running.EarlierHaveEnded())) return false;
      has_given_back_ = false;
      phase_ = Phase::kReturns;
      scheduler.Spawn(GiveBack(scheduler));
      return false;
    case Phase::kReturns:
      if (!has_given_back_ || store_.allocator.is_giving_back()) return false;
      for (auto& [server, epochs] : servers_) {
        if (MayAcknowledge(server)) epochs.acknowledged = epochs.awaited;
      }
      phase_ = Phase::kIdle;
      return true;
  }
  return false;
}

Task<void> EpochAcknowledger::GiveBackOverdue(Scheduler& scheduler, ServerId server) {
  if (store_.allocator.HasOverdueReturns(server)) {
    co_await store_.allocator.GiveBackTo(scheduler, server);
  }
}

Task<void> EpochAcknowledger::GiveBack(Scheduler& scheduler) {
  if (rules::GivesBackFirst()) co_await store_.allocator.GiveBackReturns(scheduler);
  has_given_back_ = true;
}

}  // namespace gossamer
