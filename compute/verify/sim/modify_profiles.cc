// The profiles of read-modify-writes, and of operations on ranges.
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

// Leaves that are emptied key by key and range by range, and filled again, while cursors pass over them or rest.
void Ranges(Random& random, Plan& plan) {
  Churn(random, plan);
  plan.work.long_percent = OneOf(random, {0u, 20u, 50u});
  Weigh(plan, {10, 10, 10, 20, 3, 20});
}

}  // namespace gossamer::simulator
