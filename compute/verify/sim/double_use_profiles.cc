// Profiles in which memory gets two uses where a rule about its owners is broken.
#include <algorithm>
#include <chrono>

#include "compute/verify/sim/draw.h"
#include "compute/verify/sim/profile_parts.h"

namespace gossamer::simulator {

using std::chrono::microseconds;

void LateMemory(Random& random, Plan& plan) {
  plan.servers = std::max(plan.servers, 2u);
  plan.parameters = {256, 8, 16};
  SetFillers(plan.work, Between(random, 8, 24), 0);
  plan.work.filler_percent = 0;
  plan.work.prefill_percent = 100;
  plan.work.long_percent = 100;
  plan.work.longest_value = OneOf(random, {300u, 900u});
  plan.work.skew = Skew::kUniform;
  plan.work.scan_keys = plan.work.keys();
  plan.work.nap_percent = 100;
  plan.work.longest_nap_us = OneOf(random, {20'000u, 60'000u});
  plan.work.writers_at_once = 8;
  plan.work.sweep_us = 5'000;
  AtMostClients(plan, Between(random, 3, 4));
  for (ClientPlan& client : plan.clients) {
    client.sessions = Between(random, 2, 3);
    client.coroutines = Between(random, 2, 4);
    client.cache_bytes = 1 << 20;
  }
  if (plan.faults.has(Fault::kExhaust)) plan.chunks = Between(random, 3, 10);
  plan.kills = plan.faults.has(Fault::kKill) ? OneOf(random, {0u, 6u, 12u}) : 0;
  plan.pauses = plan.faults.has(Fault::kPause) ? OneOf(random, {0u, 12u, 36u}) : 0;
  plan.deaths = plan.joins = plan.record_faults = 0;
  plan.longest_pause_ms = 400;
  plan.longest_lag_us = OneOf(random, {0u, 2'000u, 20'000u});
  plan.stops_at_work = true;
  plan.clients_stay = true;
  plan.network.observes_death = {};  // otherwise there are no leases
  plan.network.faults.partition = false;
  plan.network.longest_delay = microseconds(OneOf(random, {50, 400'000}));
  plan.network.verbs_per_long_delay = OneOf(random, {2u, 8u});
  plan.network.calls_per_late_call = OneOf(random, {0u, 2u, 4u});
  plan.network.longest_late_call = microseconds(60'000);
  plan.network.faults.lose_calls = plan.faults.has(Fault::kCalls) && Chance(random, 50);
  plan.network.calls_per_loss = 5;
  plan.network.late_call_percent = 100;
  plan.network.connection_timeout = microseconds(500);
  Weigh(plan, {5, 1, 20, 5, 60, 5});
}

void BlocksInGroups(Random& random, Plan& plan) {
  plan.servers = 1;
  plan.parameters = {OneOf(random, {512u, 1024u}), 8, 16};
  SetFillers(plan.work, Between(random, 16, 64), 0);
  plan.work.filler_percent = 0;
  plan.work.prefill_percent = 100;
  plan.work.long_percent = OneOf(random, {30u, 60u});
  plan.work.longest_value = Between(random, 17, 20);
  plan.work.skew = Skew::kUniform;
  plan.work.batch_percent = 60;
  plan.work.longest_batch = OneOf(random, {2u, 3u, 4u});
  plan.work.nap_percent = 100;
  plan.work.longest_nap_us = 400'000;  // freed blocks wait for a second
  plan.work.writers_at_once = 6;
  AtMostClients(plan, Between(random, 2, 3));
  for (ClientPlan& client : plan.clients) {
    client.sessions = 2;
    client.coroutines = Between(random, 1, 2);
    client.cache_bytes = 1 << 20;
  }
  plan.network.observes_death = microseconds(100);
  Weigh(plan, {20, 2, 20, 15, 20, 20});
}

void HighRoot(Random& random, Plan& plan) {
  LowRoot(random, plan);
  plan.network.faults.break_queue_pairs = plan.faults.has(Fault::kBreak);
  plan.network.verbs_per_break = OneOf(random, {60u, 100u, 200u});
}

}  // namespace gossamer::simulator
