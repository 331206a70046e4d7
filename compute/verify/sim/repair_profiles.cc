// The profile of repairs that meet, and of clients that know the tree as it was before a loss.
#include <algorithm>
#include <chrono>

#include "compute/verify/sim/draw.h"
#include "compute/verify/sim/profile_parts.h"

namespace gossamer::simulator {

using std::chrono::microseconds;

void LostParents(Random& random, Plan& plan) {
  plan.servers = std::max(plan.servers, Between(random, 3, 5));
  // Few children of each node: many internal nodes. Most of them are made when server 0 is full.
  plan.parameters = {256, 32, 16};
  SetFillers(plan.work, Between(random, 8, 32), Between(random, 150, 350));
  plan.work.filler_percent = Between(random, 50, 90);
  plan.work.far_percent = 100;
  plan.work.prefill_percent = Between(random, 20, 60);
  plan.work.long_percent = 0;
  plan.work.scan_keys = plan.work.keys();
  plan.work.skew = Skew::kUniform;
  plan.work.writers_at_once = 6;
  // Operations go on as long as repairs do, and longer than an epoch takes.
  plan.work.nap_percent = 100;
  plan.work.longest_nap_us = OneOf(random, {500u, 2000u});
  AtMostClients(plan, Between(random, 3, 5));
  // Some know all of the tree, and some nothing.
  for (size_t i = 0; i < plan.clients.size(); ++i) {
    plan.clients[i].sessions = Between(random, 1, 2);
    plan.clients[i].coroutines = Between(random, 2, 5);
    plan.clients[i].cache_bytes = i % 2 == 0 ? 1 << 20 : 0;
  }
  plan.network.faults.partition = false;
  plan.joins = plan.record_faults = plan.stalls = 0;
  plan.kills = 0;
  plan.deaths = plan.faults.has(Fault::kRestart) ? Between(random, 1, 2) : 0;
  plan.successor_percent = 0;
  plan.clients_stay = true;
  plan.repair_us = OneOf(random, {200u, 2000u});
  plan.network.observes_death = microseconds(100);
  if (plan.network.faults.delay) {
    plan.network.longest_delay = microseconds(OneOf(random, {50, 5'000, 20'000}));
    plan.network.verbs_per_long_delay = OneOf(random, {16u, 64u});
  }
  if (plan.faults.has(Fault::kExhaust)) plan.chunks_of_first = 1;
  Weigh(plan, {30, 2, 12, 40, 4, 4});
}

}  // namespace gossamer::simulator
