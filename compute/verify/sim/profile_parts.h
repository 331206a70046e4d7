// What profiles are made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "common/random.h"
#include "compute/verify/sim/plan.h"

namespace gossamer::simulator {

inline void Weigh(Plan& plan, std::initializer_list<uint32_t> weights) {
  std::copy(weights.begin(), weights.end(), plan.work.weights.begin());
}

inline void SetFillers(WorkPlan& work, uint32_t hot_keys, uint32_t keys) {
  work.hot_keys = std::max(1u, std::min(work.hot_keys, hot_keys));
  work.fillers = keys / work.hot_keys;
}

inline void AtMostClients(Plan& plan, uint32_t clients) {
  plan.clients.resize(std::min<size_t>(plan.clients.size(), clients));
}

// Keys that come and go in waves (churn_profile.cc).
void Churn(Random& random, Plan& plan);
// The same, with merges that are left unfinished.
void Unfinished(Random& random, Plan& plan);
// Those of batch_profiles.cc: batches, and sessions whose writes go out together.
void Batches(Random& random, Plan& plan);
void Crowds(Random& random, Plan& plan);
// Those of modify_profiles.cc: read-modify-writes of few keys; ranges that are deleted, and cursors that rest.
void Modifies(Random& random, Plan& plan);
void Ranges(Random& random, Plan& plan);
// Keys that come in order.
void InOrder(Random& random, Plan& plan);
// Those below are in memory_profiles.cc. Keys that come and go in memory whose generations are nearly used up.
void Worn(Random& random, Plan& plan);
// Clients outlive their leases, while others change the tree, and sweep.
void PastLeases(Random& random, Plan& plan);
// Clients lose the lease with one memory server, while others sweep.
void LostLeases(Random& random, Plan& plan);
// Clients overwrite values in blocks, and their sessions go on late when their leases have ended.
void Lagging(Random& random, Plan& plan);
// Control calls take longer than their callers wait, while others overwrite what they name, sweep and close.
void LateCalls(Random& random, Plan& plan);
// Clients overwrite each other's values, and give up memory that waits for them while they get some
// of it back.
void GivenUp(Random& random, Plan& plan);
// Memory servers die for good, and clients repair the tree meanwhile.
void Repaired(Random& random, Plan& plan);
// A tree that grows to two levels and shrinks to one leaf all the time.
void LowRoot(Random& random, Plan& plan);
// Those of double_use_profiles.cc. Values in blocks, WRITEs and control calls that take longer than
// leases, clients that die or stop, and sweeps.
void LateMemory(Random& random, Plan& plan);
// Groups of writes replace values in blocks, which are used again.
void BlocksInGroups(Random& random, Plan& plan);
// A tree whose root splits, or gives way to its only child, all the time, over links that break.
void HighRoot(Random& random, Plan& plan);

}  // namespace gossamer::simulator
