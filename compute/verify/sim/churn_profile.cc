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

void IdleChurn(Random& random, Plan& plan) {
  Churn(random, plan);
  // One or two clients split and merge. What a merge frees is soon a split's again.
  AtMostClients(plan, 3);
  for (size_t i = 1; i < plan.clients.size(); ++i) {
    ClientPlan& idle = plan.clients[i];
    idle.cache_bytes = 1 << 20;
    idle.beat_us = 3000;
    idle.longest_nap_us = 100;
  }
}

}  // namespace gossamer::simulator
