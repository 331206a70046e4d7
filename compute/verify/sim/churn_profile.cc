// The profile of leaves that split and merge all the time, where everybody is.
#include <chrono>

#include "compute/verify/sim/draw.h"
#include "compute/verify/sim/profile_parts.h"

namespace gossamer::simulator {

void Churn(Random& random, Plan& plan) {
  plan.parameters.node_bytes = OneOf<uint32_t>(random, {256, 256, 256, 512});
  plan.lock_table_bytes = OneOf<uint64_t>(random, {256, 4096, 65536, 65536});
  SetFillers(plan.work, Between(random, 2, 8), Between(random, 40, 200));
  plan.work.filler_percent = Between(random, 60, 95);
  plan.work.far_percent = OneOf(random, {20u, 100u});
  plan.work.prefill_percent = Between(random, 30, 100);
  plan.work.long_percent = OneOf(random, {0u, 0u, 20u});
  plan.work.skew = OneOf(random, {Skew::kUniform, Skew::kUniform, Skew::kAscend});
  plan.work.scan_keys = plan.work.keys();
  plan.work.writers_at_once = 6;
  plan.work.wave = OneOf(random, {60u, 120u, 200u});
  if (Chance(random, 50)) {
    // Long keys make internal nodes with few children, which come and go, too.
    plan.parameters = {256, 32, 16};
    plan.work.wave = plan.operations / OneOf(random, {2u, 3u, 4u});
    SetFillers(plan.work, Between(random, 2, 4), Between(random, 80, 200));
    plan.work.filler_percent = 95;
    plan.work.far_percent = 100;
    plan.work.skew = Skew::kUniform;
  }
  AtMostClients(plan, Between(random, 2, 5));
  for (ClientPlan& client : plan.clients) {
    if (Chance(random, 80)) client.cache_bytes = 1 << 20;
  }
  plan.work.sweep_us = OneOf(random, {0u, 2000u, 20'000u});
  if (Chance(random, 50)) plan.network.longest_delay = std::chrono::microseconds(1000);
  Weigh(plan, {15, Between(random, 0, 8), 3, 12, 3, 60});
}

void Unfinished(Random& random, Plan& plan) {
  Churn(random, plan);
  plan.parameters = {256, 32, 16};
  SetFillers(plan.work, 2, Between(random, 24, 60));
  plan.work.filler_percent = 95;
  plan.work.far_percent = 100;
  plan.work.skew = Skew::kUniform;
  plan.work.scan_keys = plan.work.keys();
  plan.work.wave = 0;
  plan.work.batch_percent = 50;
  plan.work.longest_batch = 16;
  plan.work.erase_keys = plan.work.keys() / 2;
  plan.work.weights[static_cast<size_t>(history::OperationKind::kErase)] = 6;
  plan.work.sweep_us = 0;
  AtMostClients(plan, 5);
  if (plan.faults.has(Fault::kKill)) plan.kills = Between(random, 24, 60);
  plan.dies_merging = true;
  if (plan.faults.has(Fault::kPause)) plan.pauses = Between(random, 20, 60);
  plan.longest_pause_ms = OneOf(random, {1u, 4u});
  plan.stops_at_work = true;
  plan.network.longest_delay = std::chrono::microseconds(1000);
  plan.network.verbs_per_long_delay = 4;
  plan.network.observes_death = std::chrono::microseconds(100);
  Weigh(plan, {5, 1, 20, 20, 10, 10});
}

}  // namespace gossamer::simulator
