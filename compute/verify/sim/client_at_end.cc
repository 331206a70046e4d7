// What a client does when the run is over.
#include <algorithm>

#include "compute/tree/tree.h"
#include "compute/verify/sim/client.h"

namespace gossamer::simulator {

using history::kAbsent;
using history::OperationKind;

void SimulatedClient::PutByEachSession() {
  constexpr uint32_t kMostKeys = 4;
  const uint32_t keys = scene_.plan.work.keys();
  for (uint32_t i = 0; i < plan_.sessions; ++i) {
    const uint32_t lane = scene_.recorder.AddLane(number_, i, plan_.coroutines);
    for (uint32_t j = 0; j < std::min(keys, kMostKeys); ++j) {
      Put(*sessions_[i], lane, keys / std::min(keys, kMostKeys) * j);
    }
  }
}

// A store that failed to reach a memory server rests before it tries again (RestAfterTry).
void SimulatedClient::SettleLocks() {
  constexpr std::chrono::seconds kLongest{5};
  store_->StopUpkeep();  // from here on one session at a time is driven
  OpenSession& session = *sessions_.front();
  const auto until = scene_.network.Now() + kLongest;
  while (!session.tree().shared().orphans.empty() && scene_.network.Now() < until) {
    session.RunToEnd([](Scheduler& scheduler) -> Task<void> {
      co_await scheduler.SleepFor(std::chrono::milliseconds(1));
    }(session.scheduler()));
  }
}

size_t SimulatedClient::CountTurns() { return store_->CountTurns(); }

void SimulatedClient::Put(OpenSession& session, uint32_t lane, uint32_t key) {
  PlannedOperation put;
  put.kind = OperationKind::kPut;
  put.key = key;
  put.value = scene_.workload.NewValue(key, number_);
  scene_.workload.WriteBegins(key);
  session.Spawn(Write(session, lane, put));
  session.WaitAll();
}

uint64_t SimulatedClient::ReadAll() {
  const uint32_t lane = scene_.recorder.AddLane(number_, 0, plan_.coroutines);
  OpenSession& session = *sessions_.front();
  const size_t before = scene_.recorder.events().size();
  for (uint32_t key = 0; key < scene_.plan.work.keys() && !has_left_; ++key) {
    session.Spawn(Get(session, lane, key));
    session.WaitAll();
  }
  uint64_t present = 0;
  const std::vector<history::Event>& events = scene_.recorder.events();
  for (size_t i = before; i < events.size(); ++i) present += events[i].value != kAbsent ? 1 : 0;
  return present;
}

}  // namespace gossamer::simulator
