// Profiles of memory that changes its owner, and of pointers that outlive what they point to.
#include <algorithm>
#include <chrono>

#include "compute/verify/sim/draw.h"
#include "compute/verify/sim/profile_parts.h"
#include "proto/remote_ptr.h"

namespace gossamer::simulator {
namespace {

using std::chrono::microseconds;

// Leaves and internal nodes that come and go, with clients that sweep. A client naps between two
// operations, so that a run takes as long as many leases.
void ChurnUnderLeases(Random& random, Plan& plan, bool some_idle) {
  plan.parameters.node_bytes = 256;
  if (Chance(random, 50)) plan.parameters = {256, 32, 16};
  SetFillers(plan.work, Between(random, 2, 6), Between(random, 40, 120));
  plan.work.filler_percent = 90;
  plan.work.far_percent = 100;
  plan.work.prefill_percent = Between(random, 50, 100);
  plan.work.long_percent = OneOf(random, {0u, 0u, 30u});
  plan.work.skew = Skew::kUniform;
  plan.work.scan_keys = plan.work.keys();
  plan.work.writers_at_once = 6;
  plan.work.wave = OneOf(random, {100u, 200u, 300u});
  plan.work.nap_percent = 100;
  plan.work.longest_nap_us = OneOf(random, {25'000u, 60'000u});
  plan.work.sweep_us = OneOf(random, {10'000u, 100'000u, 300'000u});
  plan.lock_table_bytes = OneOf<uint64_t>(random, {256, 4096, 65536});
  UseBusyClients(random, plan, Between(random, 3, 5), 6);
  // Some that seldom do anything have pointers in their caches that nobody else has any more.
  for (size_t i = 2 + random.Below(2); some_idle && i < plan.clients.size(); ++i) {
    ClientPlan& idle = plan.clients[i];
    idle.beat_us = OneOf(random, {300'000u, 600'000u});
    idle.longest_nap_us = 1000;
  }
  // What a sweep gives back is soon used again.
  if (plan.faults.has(Fault::kExhaust)) plan.chunks = Between(random, 8, 24);
  plan.deaths = plan.joins = plan.record_faults = 0;
  plan.clients_stay = true;
  plan.network.observes_death = {};  // otherwise there are no leases
  Weigh(plan, {20, Between(random, 0, 5), 3, 12, 3, 60});
}

// Few clients replace values in blocks, and all keys are there. Where deaths are not observed,
// leases expire, and keepers renew them more often.
void ReplaceBlocks(Random& random, Plan& plan) {
  plan.work.filler_percent = 0;
  plan.work.prefill_percent = 100;
  plan.work.long_percent = 100;
  plan.work.skew = Skew::kUniform;
  plan.work.scan_keys = plan.work.keys();
  plan.work.writers_at_once = 8;
  UseBusyClients(random, plan, Between(random, 2, 4), 4);
  plan.deaths = plan.joins = plan.record_faults = 0;
  plan.network.observes_death = {};  // otherwise there are no leases
}

// A tree of few leaves, whose root comes and goes.
void TinyTree(Random& random, Plan& plan) {
  plan.parameters = {256, 32, 16};
  SetFillers(plan.work, Between(random, 2, 4), Between(random, 8, 24));
  plan.work.long_percent = 0;
  plan.work.scan_keys = plan.work.keys();
  plan.work.wave = plan.work.keys() * OneOf(random, {2u, 3u});
}

}  // namespace

void PastLeases(Random& random, Plan& plan) {
  ChurnUnderLeases(random, plan, false);
  if (Chance(random, 33)) TinyTree(random, plan);
  plan.kills = 0;
  if (plan.faults.has(Fault::kPause)) plan.pauses = Between(random, 10, 18);
  // As long as it takes others to leave a merge unfinished, to sweep, and to use the memory again.
  plan.longest_pause_ms = 2500;
  plan.work.longest_nap_us = OneOf(random, {10'000u, 20'000u});
  plan.work.sweep_us = 20'000;
  plan.parameters.max_key_bytes = 32;
  StopBehindWrites(plan, 4, microseconds(250'000));
  plan.longest_lag_us = OneOf(random, {0u, 500u});
  plan.stops_at_work = true;
  if (plan.faults.has(Fault::kReopen)) {
    plan.reopens = OneOf(random, {0u, 4u, 16u});
    plan.reopen_percent = OneOf(random, {0u, 20u});
  }
}

void LostLeases(Random& random, Plan& plan) {
  ChurnUnderLeases(random, plan, true);
  plan.servers = std::max(plan.servers, 2u);
  plan.network.faults.partition = plan.faults.has(Fault::kPartition);
  plan.network.verbs_per_partition = OneOf(random, {200u, 800u});
  plan.network.most_partitions = OneOf(random, {16u, 64u});
  plan.network.longest_partition = microseconds(OneOf(random, {150'000, 300'000}));
  // A lost call that takes longer than kSilentRegistration is taken for a silent server.
  plan.network.connection_timeout = microseconds(OneOf(random, {5'000, 90'000}));
  if (plan.faults.has(Fault::kKill)) plan.kills = Between(random, 6, 16);
  if (!plan.network.faults.delay || Chance(random, 50)) return;
  // Leases end before verbs do.
  plan.network.longest_delay = microseconds(95'000);
  plan.network.verbs_per_long_delay = OneOf(random, {32u, 64u});
  plan.work.long_percent = 60;
  plan.work.sweep_us = 10'000;
  plan.network.connection_timeout = microseconds(5'000);
}

void LateThreads(Random& random, Plan& plan) {
  LostLeases(random, plan);
  plan.work.long_percent = 100;
  plan.work.sweep_us = 10'000;
  // A sweep takes what dead clients have allocated, unless another client gives it back first.
  if (plan.faults.has(Fault::kKill)) plan.kills = Between(random, 20, 40);
  StopBehindWrites(plan, OneOf(random, {6u, 12u}), microseconds(300'000));
  plan.network.stop_bytes = 32;  // of units and blocks, too
  plan.network.stops_thread = true;
}

void Lagging(Random& random, Plan& plan) {
  plan.parameters = {256, 8, 16};
  SetFillers(plan.work, Between(random, 4, 12), 0);
  plan.work.longest_value = OneOf(random, {60u, 300u, 900u});
  plan.work.nap_percent = 20;
  plan.work.longest_nap_us = OneOf(random, {500u, 20'000u});
  plan.work.sweep_us = OneOf(random, {0u, 5'000u, 50'000u});
  ReplaceBlocks(random, plan);
  // Memory is asked for often, and soon used again.
  if (plan.faults.has(Fault::kExhaust)) plan.chunks = Between(random, 8, 24);
  plan.kills = 0;
  if (plan.faults.has(Fault::kPause)) plan.pauses = Between(random, 24, 48);
  plan.longest_pause_ms = 400;
  plan.longest_lag_us = OneOf(random, {100u, 2'000u, 20'000u});
  plan.stops_at_work = true;
  plan.clients_stay = true;
  Weigh(plan, {15, 2, 25, 5, 48, 5});
}

void LateCalls(Random& random, Plan& plan) {
  ChurnUnderLeases(random, plan, Chance(random, 50));
  plan.servers = std::max(plan.servers, 2u);
  plan.work.long_percent = OneOf(random, {30u, 60u});
  plan.work.sweep_us = OneOf(random, {5'000u, 20'000u, 100'000u});
  plan.network.faults.lose_calls = plan.faults.has(Fault::kCalls);
  plan.network.calls_per_loss = OneOf(random, {5u, 20u});
  plan.network.late_call_percent = OneOf(random, {50u, 100u});
  plan.network.connection_timeout = microseconds(OneOf(random, {500, 5'000}));
  if (plan.faults.has(Fault::kKill)) plan.kills = OneOf(random, {0u, 0u, 4u, 16u});
  if (plan.faults.has(Fault::kReopen)) plan.reopens = OneOf(random, {4u, 16u});
}

void GivenUp(Random& random, Plan& plan) {
  plan.servers = 1;
  plan.parameters.inline_value_bytes = 16;
  SetFillers(plan.work, Between(random, 8, 24), 0);
  plan.work.longest_value = Between(random, 17, 60);
  plan.work.nap_percent = OneOf(random, {10u, 30u});
  plan.work.longest_nap_us = OneOf(random, {500u, 4000u});
  plan.work.sweep_us = OneOf(random, {0u, 100'000u});
  ReplaceBlocks(random, plan);
  if (plan.faults.has(Fault::kExhaust)) plan.chunks = Between(random, 3, 6);
  plan.kills = plan.faults.has(Fault::kKill) ? Between(random, 0, 4) : 0;
  // A request is on its way for as long as others take to replace many values.
  plan.lease_ms = 200;
  plan.network.longest_late_call = microseconds(OneOf(random, {5'000, 20'000, 60'000}));
  plan.network.calls_per_late_call = OneOf(random, {2u, 4u});
  Weigh(plan, {10, 1, 20, 5, 60, 4});
}

void Repaired(Random& random, Plan& plan) {
  plan.servers = std::max(plan.servers, 3u);
  plan.parameters.node_bytes = 256;
  if (Chance(random, 50)) plan.parameters = {256, 32, 16};
  SetFillers(plan.work, Between(random, 2, 12), Between(random, 60, 200));
  plan.work.filler_percent = Between(random, 50, 90);
  plan.work.far_percent = OneOf(random, {20u, 100u});
  plan.work.prefill_percent = Between(random, 30, 100);
  plan.work.long_percent = OneOf(random, {0u, 0u, 30u});
  plan.work.scan_keys = plan.work.keys();
  plan.work.nap_percent = OneOf(random, {0u, 20u});
  plan.work.longest_nap_us = 1000;
  AtMostClients(plan, Between(random, 2, 5));
  plan.network.faults.partition = false;
  plan.joins = plan.record_faults = plan.stalls = 0;
  plan.deaths = plan.faults.has(Fault::kRestart) ? Between(random, 1, 3) : 0;
  plan.successor_percent = 0;
  plan.clients_stay = true;
  plan.repair_us = OneOf(random, {200u, 2000u, 20'000u});
  plan.network.observes_death = microseconds(100);
  Weigh(plan, {20, 4, 12, 30, 8, 16});
  // Internal nodes on all servers, because no server has memory for long.
  if (plan.faults.has(Fault::kExhaust) && Chance(random, 50)) {
    SetFillers(plan.work, Between(random, 2, 12), Between(random, 200, 500));
    plan.work.scan_keys = plan.work.keys();
    plan.work.long_percent = 0;
    plan.chunks = Between(random, 1, 3);
  }
}

void LowRoot(Random& random, Plan& plan) {
  TinyTree(random, plan);
  SetFillers(plan.work, 2, Between(random, 8, 16));
  plan.work.scan_keys = plan.work.keys();
  plan.work.wave = plan.work.keys() * OneOf(random, {1u, 2u});
  plan.work.filler_percent = 90;
  plan.work.far_percent = 100;
  plan.work.prefill_percent = Between(random, 0, 50);
  plan.work.skew = Skew::kUniform;
  plan.work.writers_at_once = 6;
  plan.work.nap_percent = OneOf(random, {0u, 0u, 20u});
  plan.lock_table_bytes = 65536;
  AtMostClients(plan, Between(random, 3, 5));
  for (ClientPlan& client : plan.clients) {
    client.sessions = Between(random, 1, 2);
    client.coroutines = Between(random, 1, 3);
    client.cache_bytes = 1 << 20;
  }
  plan.deaths = 0;
  plan.kills = 0;
  if (plan.faults.has(Fault::kPause)) plan.pauses = Between(random, 60, 150);
  plan.longest_pause_ms = OneOf(random, {1u, 4u});
  plan.stops_at_work = true;
  plan.network.longest_delay = microseconds(OneOf(random, {200, 1000}));
  plan.network.verbs_per_long_delay = OneOf(random, {4u, 16u});
  plan.network.observes_death = microseconds(100);
  Weigh(plan, {10, Between(random, 0, 3), 3, 12, 3, 60});
}

void LateRoot(Random& random, Plan& plan) {
  LowRoot(random, plan);
  plan.pauses = 0;
  // Merges find their locks free.
  plan.work.nap_percent = 100;
  plan.work.longest_nap_us = OneOf(random, {100u, 300u});
  plan.work.wave = plan.work.keys() * OneOf(random, {3u, 4u});
  StopBehindWrites(plan, OneOf(random, {2u, 4u}), microseconds(20'000));
  plan.network.stop_writes = 2;  // those of splits
}

void Worn(Random& random, Plan& plan) {
  ChurnUnderLeases(random, plan, true);
  plan.worn_generation = static_cast<uint8_t>(RemotePtr::kGenerations - Between(random, 2, 3));
  plan.work.sweep_us = 0;
  plan.network.observes_death = microseconds(100);
}

}  // namespace gossamer::simulator
