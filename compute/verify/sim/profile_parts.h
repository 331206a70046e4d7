// What profiles are made of.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <initializer_list>

#include "common/random.h"
#include "compute/verify/sim/draw.h"
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

// At most so many clients, with two or three sessions each, and a cache for the whole tree.
inline void UseBusyClients(Random& random, Plan& plan, uint32_t clients, uint32_t coroutines) {
  AtMostClients(plan, clients);
  for (ClientPlan& client : plan.clients) {
    client.sessions = Between(random, 2, 3);
    client.coroutines = Between(random, 2, coroutines);
    client.cache_bytes = 1 << 20;
  }
}

// A client stops behind one of `batches` batches that WRITE a whole node and release a lock.
inline void StopBehindWrites(Plan& plan, uint32_t batches, std::chrono::microseconds longest) {
  plan.network.faults.pause = plan.faults.has(Fault::kPause);
  plan.network.batches_per_stop = batches;
  plan.network.stop_bytes = plan.parameters.node_bytes;
  plan.network.longest_stop = longest;
}

// Keys that come and go in waves (churn_profile.cc).
void Churn(Random& random, Plan& plan);
// The same, beside clients that seldom do anything and know the tree as it was long ago.
void IdleChurn(Random& random, Plan& plan);
// Those of batch_profiles.cc: batches, and sessions whose writes go out together.
void Batches(Random& random, Plan& plan);
void Crowds(Random& random, Plan& plan);
// Groups of writes that replace values in blocks (blocks_in_groups_profile.cc).
void BlocksInGroups(Random& random, Plan& plan);
// Those of modify_profiles.cc: read-modify-writes of few keys; ranges that are deleted, and cursors
// that rest.
void Modifies(Random& random, Plan& plan);
void PlannedModifies(Random& random, Plan& plan);
void Ranges(Random& random, Plan& plan);
// Few keys that expire, long enough for that.
void Expiries(Random& random, Plan& plan);
// Keys that come in order.
void InOrder(Random& random, Plan& plan);
// Those below are in memory_profiles.cc. Keys that come and go in memory whose generations are
// nearly used up.
void Worn(Random& random, Plan& plan);
// Clients outlive their leases, while others change the tree, and sweep.
void PastLeases(Random& random, Plan& plan);
// Clients lose the lease with one memory server, while others sweep.
void LostLeases(Random& random, Plan& plan);
// The same, and single threads of clients stop behind their writes, for longer than sweeps take.
void LateThreads(Random& random, Plan& plan);
// Clients overwrite values in blocks, and their sessions go on late when their leases have ended.
void Lagging(Random& random, Plan& plan);
// Control calls take longer than their callers wait, while others overwrite what they name, sweep
// and close.
void LateCalls(Random& random, Plan& plan);
// Clients overwrite each other's values, and give up memory that waits for them while they get some
// of it back.
void GivenUp(Random& random, Plan& plan);
// Memory servers die for good, and clients repair the tree meanwhile.
void Repaired(Random& random, Plan& plan);
// The same, with internal nodes on servers that die, and several slow repairs at the same time.
void LostParents(Random& random, Plan& plan);
// A tree that grows to two levels and shrinks to one leaf all the time.
void LowRoot(Random& random, Plan& plan);
// The same, and clients that stop behind a split, before they raise the root.
void LateRoot(Random& random, Plan& plan);
// Those of return_profiles.cc. Memory servers are killed in all that other profiles are about, and
// come back with their memory.
void Returned(Random& random, Plan& plan);
// The same under leases that end, with merges and sweeps.
void SweptReturns(Random& random, Plan& plan);
// The same, but they stay away for longer than clients wait, and links and the record fail as well.
void LateReturns(Random& random, Plan& plan);
// Those of late_profiles.cc. Clients overwrite values in blocks, and lose the lease with a block's
// server while the WRITE that links it is under way.
void LateLinks(Random& random, Plan& plan);
// Clients make frozen leaves live again, and lose the lease with the left neighbour's server while
// that WRITE is under way.
void LateUndos(Random& random, Plan& plan);

}  // namespace gossamer::simulator
