// The profiles of many writes together.
#include "compute/verify/sim/draw.h"
#include "compute/verify/sim/profile_parts.h"

namespace gossamer::simulator {

// Batches of writes, into leaves that they split into many.
void Batches(Random& random, Plan& plan) {
  plan.parameters.node_bytes = OneOf<uint32_t>(random, {256, 256, 512});
  SetFillers(plan.work, Between(random, 4, 32), Between(random, 150, 400));
  plan.work.filler_percent = Between(random, 40, 80);
  plan.work.far_percent = OneOf(random, {0u, 50u});
  plan.work.prefill_percent = Between(random, 0, 40);
  plan.work.writers_at_once = 6;
  Weigh(plan, {30, 4, 10, 20, 10, 20});
}

// Few sessions of many coroutines. There are more leaves than coroutines, and most are cached.
void Crowds(Random& random, Plan& plan) {
  plan.parameters.node_bytes = OneOf<uint32_t>(random, {256, 256, 512});
  plan.parameters.inline_value_bytes = 16;
  plan.lock_table_bytes = OneOf<uint64_t>(random, {64, 1024, 4096, 4096});
  SetFillers(plan.work, Between(random, 4, 32), Between(random, 300, 800));
  plan.work.filler_percent = Between(random, 50, 90);
  plan.work.prefill_percent = Between(random, 30, 100);
  plan.work.long_percent = OneOf(random, {0u, 0u, 10u});
  plan.work.nap_percent = 0;
  plan.work.skew = OneOf(random, {Skew::kUniform, Skew::kUniform, Skew::kZipf});
  plan.work.writers_at_once = 6;
  AtMostClients(plan, Between(random, 2, 3));
  for (ClientPlan& client : plan.clients) client.cache_bytes = 1 << 20;
  Weigh(plan, {15, 1, 35, 15, 22, 12});
}

}  // namespace gossamer::simulator
