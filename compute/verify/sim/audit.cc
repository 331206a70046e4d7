#include "compute/verify/sim/audit.h"

#include <fmt/core.h>

#include "common/text/human.h"

namespace gossamer::simulator {
namespace {

// No operation runs, so live clients hold no locks. A dead client may have left a lock that no
// client has needed since.
void JudgeTree(const Scene& scene, const CheckReport& report, uint64_t present) {
  for (const std::string& problem : report.problems) scene.verdict.Wrong("check: " + problem);
  if (report.locks_of_the_dead != 0 && !scene.verdict.may_die()) {
    scene.verdict.Wrong("check: " + HumanQuantity(report.locks_of_the_dead, "lock") +
                        " left of the dead, where nobody died");
  }
  if (report.keys != present) {
    scene.verdict.Wrong(fmt::format("check counts {} keys, gets find {}", report.keys, present));
  }
}

Status LookAround(Scene& scene, uint32_t number, RunCounts& counts) {
  constexpr uint64_t kCacheBytes = 1 << 20;
  SimulatedClient auditor(scene, number, {.cache_bytes = kCacheBytes});
  BOOST_OUTCOME_TRYV(auditor.Open());
  const uint64_t present = auditor.ReadAll();
  BOOST_OUTCOME_TRY(report, auditor.store().Check({}));
  JudgeTree(scene, report, present);
  counts.levels += report.levels;
  counts.keys += report.keys;
  counts.leaves += report.leaves;
  counts.missing_downlinks += report.missing_downlinks;
  counts.locks_of_the_dead += report.locks_of_the_dead;
  return Ok();
}

}  // namespace

void CheckWhoStayed(std::span<const std::unique_ptr<SimulatedClient>> clients, Scene& scene) {
  if (!scene.plan.network.faults.partition && scene.plan.returns == 0) return;
  for (const auto& client : clients) {
    if (client == nullptr) continue;
    // Finds servers that have come back and that no operation has needed since.
    if (scene.plan.returns != 0) static_cast<void>(client->store().NeedsSweep());
    client->SettleLocks();
  }
  for (const auto& client : clients) {
    if (client == nullptr) continue;
    const std::string name = fmt::format("at the end, client {}", client->number());
    const size_t turns = client->CountTurns();
    if (turns != 0)
      scene.verdict.Wrong(name + " has " + HumanQuantity(turns, "turn") + " at locks");
    const uint64_t lost = scene.verdict.lost();
    client->PutByEachSession();
    if (scene.verdict.lost() != lost) scene.verdict.Wrong(name + " cannot write");
  }
}

void Audit(Scene& scene, uint32_t number, RunCounts& counts) {
  const Status looked = LookAround(scene, number, counts);
  if (!looked) scene.verdict.Wrong("the last check fails: " + looked.error().ToString());
  AuditHistory(scene, counts);
}

void AuditHistory(Scene& scene, RunCounts& counts) {
  const history::HistoryReport history = CheckHistory(scene.recorder.events());
  for (const std::string& problem : history.problems) scene.verdict.Wrong(problem);
  // A run that cannot be decided has not passed.
  if (history.undecided_keys != 0) {
    scene.verdict.Wrong(HumanQuantity(history.undecided_keys, "key") +
                        " with a history too tangled to decide");
  }
  counts.history_events += history.events;
  counts.undecided_keys += history.undecided_keys;
}

}  // namespace gossamer::simulator
