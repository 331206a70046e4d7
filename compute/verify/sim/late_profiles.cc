// Profiles of WRITEs that land when their client has lost its lease with another memory server, and
// others have gone on.
#include <algorithm>
#include <chrono>

#include "compute/verify/sim/draw.h"
#include "compute/verify/sim/profile_parts.h"
#include "proto/lock_word.h"

namespace gossamer::simulator {
namespace {

using std::chrono::microseconds;

// One of `batches` batches that release a lock is late, for longer than a lease. Meanwhile its
// client reaches no other memory server for some time. Other links are not down, and nobody dies.
void LagBehindLeases(Plan& plan, uint32_t batches, microseconds longest) {
  plan.network.faults.delay = plan.faults.has(Fault::kDelay);
  plan.network.batches_per_lag = batches;
  plan.network.longest_lag = longest;
  plan.network.faults.partition = plan.faults.has(Fault::kPartition);
  plan.network.most_partitions = 0;
  plan.network.connection_timeout = longest;
  plan.network.faults.lose_calls = plan.network.faults.cut = false;
  plan.network.observes_death = {};  // otherwise there are no leases
  plan.kills = plan.pauses = plan.stalls = 0;
  plan.deaths = plan.joins = plan.record_faults = 0;
  plan.clients_stay = true;
  // Few nodes share a lock: who waits for one that is late asks for it all the time.
  plan.lock_table_bytes = 65536;
}

// Fillers alone, which are asked for evenly, in small leaves.
void UseFillers(Plan& plan, uint32_t hot_keys, uint32_t keys) {
  plan.parameters = {256, 8, 16};
  SetFillers(plan.work, hot_keys, keys);
  plan.work.filler_percent = 100;
  plan.work.far_percent = 100;
  plan.work.skew = Skew::kUniform;
  plan.work.scan_keys = plan.work.keys();
  plan.work.nap_percent = 100;
}

}  // namespace

void LateLinks(Random& random, Plan& plan) {
  plan.servers = std::max(plan.servers, 2u);
  UseFillers(plan, 64, Between(random, 200, 500));
  plan.work.prefill_percent = 100;
  plan.work.long_percent = 100;
  plan.work.longest_value = OneOf(random, {60u, 300u});
  plan.work.longest_nap_us = OneOf(random, {10'000u, 20'000u, 40'000u});
  plan.work.sweep_us = OneOf(random, {5'000u, 20'000u});
  UseBusyClients(random, plan, Between(random, 2, 4), 4);
  LagBehindLeases(plan, OneOf(random, {4u, 16u}), microseconds(OneOf(random, {200'000, 300'000})));
  Weigh(plan, {5, 1, 30, 5, 55, 5});
}

void LateUndos(Random& random, Plan& plan) {
  // Every client has memory on few servers, so that neighbours are on two of them.
  plan.servers = std::max(plan.servers, 8u);
  if (plan.faults.has(Fault::kExhaust)) plan.chunks = 2;
  UseFillers(plan, 8, 200);
  plan.work.prefill_percent = 60;
  plan.work.long_percent = 0;
  plan.work.writers_at_once = 6;
  // A leaf fills, and gets empty again, while a WRITE is late.
  plan.work.wave = OneOf(random, {600u, 1000u});
  plan.work.longest_nap_us = OneOf(random, {1'000u, 2'000u});
  plan.work.sweep_us = 20'000;  // so that memory is soon used again
  AtMostClients(plan, 4);
  for (ClientPlan& client : plan.clients) {
    client.sessions = 2;
    client.coroutines = 8;
    client.cache_bytes = 1 << 20;
  }
  // A WRITE is late only if it freezes a leaf, or makes one live again.
  plan.network.lag_bits = LockWord().ForMerge().word();
  LagBehindLeases(plan, 1, microseconds(OneOf(random, {300'000, 400'000})));
  Weigh(plan, {25, 1, 3, 12, 3, 50});
}

}  // namespace gossamer::simulator
