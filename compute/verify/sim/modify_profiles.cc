// The profiles of read-modify-writes, of operations on ranges, of keys that expire, and of keys that
// come in order.
#include "compute/verify/sim/draw.h"
#include "compute/verify/sim/profile_parts.h"

namespace gossamer::simulator {

// Read-modify-writes of few keys beside other writes, of values in leaves and in blocks.
void Modifies(Random& random, Plan& plan) {
  SetFillers(plan.work, Between(random, 2, 16), OneOf(random, {0u, 40u, 150u}));
  plan.work.filler_percent = plan.work.fillers == 0 ? 0 : Between(random, 20, 60);
  plan.work.prefill_percent = OneOf(random, {0u, 50u, 100u});
  plan.work.long_percent = OneOf(random, {0u, 20u, 60u});
  plan.work.writers_at_once = Between(random, 3, 6);
  Weigh(plan, {20, 2, 10, 8, 6, 12});
}

// Batches of them, of values in blocks: what becomes of these is planned before the locks.
void PlannedModifies(Random& random, Plan& plan) {
  plan.parameters.inline_value_bytes = 16;
  SetFillers(plan.work, Between(random, 2, 16), OneOf(random, {60u, 150u, 300u}));
  plan.work.filler_percent = Between(random, 20, 80);
  plan.work.prefill_percent = OneOf(random, {30u, 100u});
  plan.work.long_percent = OneOf(random, {60u, 90u, 100u});
  plan.work.longest_value = OneOf(random, {20u, 100u, 400u});
  plan.work.batch_percent = 60;
  plan.work.longest_batch = OneOf(random, {4u, 16u, 64u});
  plan.work.writers_at_once = Between(random, 3, 6);
  AtMostClients(plan, Between(random, 2, 6));
  for (ClientPlan& client : plan.clients) client.cache_bytes = 1 << 20;
  Weigh(plan, {10, 2, 10, 8, 6, 12});
  plan.work.weights[static_cast<size_t>(history::OperationKind::kModify)] = 60;
}

// Leaves that are emptied key by key and range by range, and filled again, while cursors pass over
// them or rest.
void Ranges(Random& random, Plan& plan) {
  Churn(random, plan);
  plan.work.long_percent = OneOf(random, {0u, 20u, 50u});
  Weigh(plan, {10, 10, 10, 20, 3, 20});
}

// Keys that expire, in leaves and in blocks, while others get, renew and sweep them. The store's
// time is in milliseconds: clients nap, so that some of them pass.
void Expiries(Random& random, Plan& plan) {
  SetFillers(plan.work, Between(random, 1, 8), OneOf(random, {0u, 0u, 20u, 60u}));
  plan.work.filler_percent = plan.work.fillers == 0 ? 0 : Between(random, 20, 60);
  plan.work.prefill_percent = OneOf(random, {0u, 50u});
  plan.work.long_percent = OneOf(random, {0u, 0u, 30u});
  plan.work.scan_keys = plan.work.keys();
  plan.work.writers_at_once = 3;
  plan.work.nap_percent = OneOf(random, {20u, 50u, 90u});
  plan.work.longest_nap_us = OneOf(random, {200u, 1000u, 3000u});
  plan.longest_pause_ms = OneOf(random, {2u, 8u, 60u});
  Weigh(plan, {45, 4, 18, 8, 6, 4, 15});
}

// Keys that come in the order of some series, so that leaves get full and have prefixes of their
// own, and others among them that lack those.
void InOrder(Random& random, Plan& plan) {
  plan.parameters = {OneOf<uint32_t>(random, {256, 512, 1024}), 32, 16};
  if (plan.parameters.node_bytes != 256 && Chance(random, 75)) {
    plan.parameters.max_key_bytes = OneOf<uint32_t>(random, {60, 120, 250});
  }
  SetFillers(plan.work, Between(random, 2, 16), Between(random, 150, 600));
  plan.work.filler_percent = 70;
  plan.work.ordered_percent = Between(random, 50, 95);
  plan.work.series = OneOf(random, {1u, 1u, 3u, 8u});
  plan.work.descends = Chance(random, 50);
  plan.work.long_percent = OneOf(random, {0u, 0u, 10u});
  plan.work.writers_at_once = 6;
  Weigh(plan, {15, 4, 35, 25, 6, 10, OneOf(random, {0u, 15u})});
}

}  // namespace gossamer::simulator
