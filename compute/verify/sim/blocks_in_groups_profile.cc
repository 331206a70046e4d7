// The profile of memory that gets two uses where it is freed twice.
#include <chrono>

#include "compute/verify/sim/draw.h"
#include "compute/verify/sim/profile_parts.h"

namespace gossamer::simulator {

using std::chrono::microseconds;

void BlocksInGroups(Random& random, Plan& plan) {
  plan.deaths = 0;
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

}  // namespace gossamer::simulator
