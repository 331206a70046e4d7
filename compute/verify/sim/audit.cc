#include "compute/verify/sim/audit.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/granted_memory.h"
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
  // Some may have expired since they were read.
  if (report.keys > present || report.keys + report.expired_keys < present) {
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

// Sweeps leave alone what a client had that has a lease with other servers, but not there again.
void CheckLeases(const Membership::Memory& memory, SimulatedClient& client, Scene& scene) {
  for (size_t server = 0; server < memory.size(); ++server) {
    const ServerId id{static_cast<uint16_t>(server)};
    if (memory[server] == nullptr || !client.store().GrantedOn(id).lease) continue;
    const bool is_registered = std::ranges::any_of(
        memory[server]->Granted().in_force,
        [&](const LeaseInForce& one) { return one.client_uuid == client.uuid(); });
    if (is_registered) continue;
    scene.verdict.Wrong(fmt::format("at the end, client {} has no lease with memory server {}",
                                    client.number(), server));
  }
}

}  // namespace

void CheckWhoStayed(const Membership::Memory& memory,
                    std::span<const std::unique_ptr<SimulatedClient>> clients, Scene& scene) {
  if (!scene.plan.network.faults.partition && scene.plan.returns == 0) return;
  for (const auto& client : clients) {
    if (client == nullptr) continue;
    if (scene.plan.returns != 0) CheckLeases(memory, *client, scene);
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
  scene.recorder.EndExpiries();
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
