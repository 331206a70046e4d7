#include "compute/verify/sim/profiles.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <iterator>

#include "compute/verify/sim/draw.h"
#include "compute/verify/sim/profile_parts.h"

namespace gossamer::simulator {
namespace {

// Nodes of 256 bytes fill with a dozen keys: constant splits, right beside the keys that all
// clients read.
void FewKeysManySplits(Random& random, Plan& plan) {
  plan.parameters.node_bytes = 256;
  SetFillers(plan.work, Between(random, 2, 8), Between(random, 150, 400));
  plan.work.filler_percent = Between(random, 50, 80);
  plan.work.prefill_percent = Between(random, 0, 10);
  plan.work.skew = OneOf(random, {Skew::kUniform, Skew::kAscend});
  Weigh(plan, {30, 2, 10, 45, 8, 5});
}

// All clients need the same lock.
void HotKey(Random& random, Plan& plan) {
  SetFillers(plan.work, Between(random, 1, 3), 0);
  plan.work.prefill_percent = 50;
  Weigh(plan, {30, 1, 15, 12, 30, 12});
}

// Few keys, which come and go. Few clients, which stop often, many times for longer than their
// leases. When they go on, their locks, and data read or handed over under a lock, are outdated.
void LongPauses(Random& random, Plan& plan) {
  SetFillers(plan.work, Between(random, 3, 5), 0);
  plan.work.filler_percent = 0;
  plan.work.prefill_percent = 50;
  plan.work.long_percent = 0;
  plan.work.nap_percent = OneOf(random, {0u, 0u, 0u, 10u});
  plan.work.scan_keys = plan.work.keys();
  plan.work.skew = Skew::kUniform;
  // A coroutine that may not write gets instead. All operations would be over before the first
  // lease ends.
  plan.work.writers_at_once = 8;
  // Each lock holder or waiter is a large part of all coroutines, yet others in its client go on.
  AtMostClients(plan, Between(random, 2, 4));
  for (ClientPlan& client : plan.clients) {
    client.sessions = Between(random, 2, 3);
    client.coroutines = Between(random, 1, 2);
  }
  if (plan.faults.has(Fault::kPause)) {
    plan.pauses = Between(random, 24, 48);
    plan.longest_pause_ms = 400;
    plan.network.observes_death = {};  // otherwise there are no leases
  }
  Weigh(plan, {Between(random, 20, 40), 1, 2, 30, Between(random, 5, 20), Between(random, 30, 50)});
}

// All locks of a server are one: parent and leaf share it, and unrelated leaves too.
void OneSlot(Random& random, Plan& plan) {
  plan.lock_table_bytes = sizeof(uint64_t);
  plan.parameters.node_bytes = 256;
  SetFillers(plan.work, Between(random, 4, 32), Between(random, 50, 200));
  plan.work.filler_percent = Between(random, 20, 60);
  plan.work.prefill_percent = Between(random, 0, 30);
}

void Scans(Random& random, Plan& plan) {
  SetFillers(plan.work, Between(random, 8, 64), Between(random, 60, 250));
  plan.work.filler_percent = Between(random, 20, 50);
  plan.work.scan_keys = plan.work.keys();
  Weigh(plan, {5, 20, 15, 35, 5, 20});
}

// Long keys make internal nodes with few children; small caches make clients descend from the root.
void DeepTree(Random& random, Plan& plan) {
  plan.parameters = {256, 32, 16};
  SetFillers(plan.work, Between(random, 8, 32), Between(random, 250, 500));
  plan.work.filler_percent = 70;
  plan.work.prefill_percent = Between(random, 20, 60);
  for (ClientPlan& client : plan.clients) {
    if (Chance(random, 50)) client.cache_bytes = OneOf<uint64_t>(random, {0, 1024, 4096});
  }
  Weigh(plan, {30, 3, 12, 40, 5, 10});
}

void Blocks(Random& random, Plan& plan) {
  plan.work.hot_keys = std::min(plan.work.hot_keys, Between(random, 4, 32));
  plan.work.long_percent = Between(random, 50, 100);
  plan.work.longest_value = Between(random, 40, 1000);
  Weigh(plan, {40, 4, 25, 8, 15, 8});
}

// Caches that hold everything, and a tree that outgrows them.
void StaleCaches(Random& random, Plan& plan) {
  plan.parameters.node_bytes = 256;
  SetFillers(plan.work, Between(random, 4, 16), Between(random, 200, 400));
  plan.work.filler_percent = Between(random, 40, 70);
  plan.work.prefill_percent = 5;
  plan.work.nap_percent = 20;
  for (ClientPlan& client : plan.clients) client.cache_bytes = 1 << 20;
  Weigh(plan, {40, 4, 8, 40, 4, 4});
}

// One in three of the runs whose nodes are seen in part. Drawn from a separate stream, so that
// other seeds keep their runs.
void DrawSeams(Plan& plan) {
  constexpr uint64_t kSeamStream = ~uint64_t{7};
  Random random(plan.seed, kSeamStream);
  if (random.Below(3) == 1) plan.network.reads_per_seam = OneOf(random, {1u, 2u, 4u});
}

// Leaves of several groups that often split where all clients read and write. Clients then act upon
// a split seen in one group while it is not visible in another.
void SeenInPart(Random& random, Plan& plan) {
  plan.parameters = {512, OneOf<uint16_t>(random, {16, 32}), 16};
  // With the parent elsewhere, a split has the parent's lock long before the leaf is written.
  plan.servers = 1;
  SetFillers(plan.work, Between(random, 40, 64), Between(random, 160, 320));
  plan.work.filler_percent = Between(random, 30, 60);
  plan.work.far_percent = 0;
  plan.work.prefill_percent = Between(random, 20, 60);
  plan.work.long_percent = 0;
  plan.work.nap_percent = 0;
  plan.work.skew = Skew::kAscend;
  for (ClientPlan& client : plan.clients) {
    // Writers soon wait for the lock of the splitting leaf.
    client = {Between(random, 1, 3), Between(random, 3, 5), 1 << 20, Between(random, 1, 2)};
  }
  if (plan.network.faults.delay) {
    plan.network.longest_delay = std::chrono::microseconds(Between(random, 200, 2000));
    plan.network.verbs_per_long_delay = 64;
    plan.network.writes_per_long_sight = 1;
  }
  DrawSeams(plan);
  Weigh(plan, {10, 2, 6, 40, 40, 2});
}

// At most `keys` keys, most of them present, all equally popular, and scanned together.
void KeysOfOneLeaf(Random& random, Plan& plan, uint32_t keys) {
  SetFillers(plan.work, keys, 0);
  plan.work.filler_percent = 0;
  plan.work.prefill_percent = Between(random, 60, 100);
  plan.work.long_percent = 0;
  plan.work.skew = Skew::kUniform;
  plan.work.scan_keys = plan.work.keys();
}

// Keys for about one leaf, which come and go. Their entries find now the home group full, now the
// overflow group, and deletes and inserts of one key meet in a combined write. Many clients die
// meanwhile.
void FullLeaf(Random& random, Plan& plan) {
  plan.parameters = {OneOf<uint32_t>(random, {256, 512}), 8, 8};
  const bool is_small = plan.parameters.node_bytes == 256;
  KeysOfOneLeaf(random, plan, is_small ? Between(random, 7, 10) : Between(random, 16, 24));
  plan.work.writers_at_once = Between(random, 4, 10);
  plan.kills *= 2;
  plan.network.writes_per_cut = 4;
  plan.network.most_cuts = 4;
  Weigh(plan, {8, 12, 5, 35, 5, 35});
}

// One leaf whose keys come and go, and so move between groups under one version, while it is read
// whole.
void ScannedLeaf(Random& random, Plan& plan) {
  plan.parameters = {256, 8, 8};
  KeysOfOneLeaf(random, plan, Between(random, 8, 12));
  plan.work.writers_at_once = 10;
  plan.work.nap_percent = OneOf(random, {0u, 10u});
  AtMostClients(plan, Between(random, 2, 4));
  for (ClientPlan& client : plan.clients) {
    client.sessions = 3;
    client.coroutines = Between(random, 1, 4);
  }
  // Other clients delete and reinsert a key while one READ takes effect.
  plan.network.verbs_per_long_delay = OneOf(random, {4u, 8u, 16u});
  plan.network.longest_delay = std::chrono::milliseconds(1);
  Weigh(plan, {0, 40, 0, 20, 0, Between(random, 10, 20)});
}

// A tree that grows from one leaf to many levels, with clients that raise its root at the same
// time.
void YoungTree(Random& random, Plan& plan) {
  plan.parameters = {256, 32, 16};
  SetFillers(plan.work, Between(random, 16, 64), Between(random, 250, 600));
  plan.work.filler_percent = Between(random, 70, 95);
  plan.work.prefill_percent = 0;
  plan.work.long_percent = 0;
  plan.work.nap_percent = OneOf(random, {0u, 20u});
  plan.work.skew = Skew::kUniform;
  AtMostClients(plan, Between(random, 2, 4));
  for (ClientPlan& client : plan.clients) client.coroutines = 1;
  using std::chrono::microseconds;
  plan.network.longest_delay = microseconds(OneOf(random, {200, 1000, 1000}));
  Weigh(plan, {12, 0, 5, 60, 0, 0});
}

// Servers with little memory: siblings land on other servers, and clients die during splits.
void FarSiblings(Random& random, Plan& plan) {
  plan.parameters.node_bytes = 256;
  SetFillers(plan.work, Between(random, 8, 32), Between(random, 300, 600));
  plan.work.filler_percent = 90;
  plan.work.prefill_percent = Between(random, 0, 10);
  plan.work.long_percent = 0;
  plan.work.nap_percent = 0;
  plan.work.skew = OneOf(random, {Skew::kUniform, Skew::kAscend});
  AtMostClients(plan, 4);
  if (plan.faults.has(Fault::kExhaust)) plan.chunks = Between(random, 2, 4);
  if (plan.faults.has(Fault::kKill)) plan.kills = Between(random, 4, 12);
  plan.network.observes_death = std::chrono::microseconds(100);
  Weigh(plan, {30, 2, 10, 45, 8, 5});
}

// Blocks of nearly one length in full memory: a freed block is reused at once, under the next
// generation.
void BlocksAgain(Random& random, Plan& plan) {
  plan.servers = 1;
  SetFillers(plan.work, Between(random, 4, 16), 0);
  plan.work.filler_percent = 0;
  plan.work.prefill_percent = 100;
  plan.work.long_percent = 100;
  plan.work.longest_value = Between(random, 17, 20);
  plan.work.nap_percent = 0;
  plan.work.scan_keys = plan.work.keys();
  AtMostClients(plan, 4);
  if (plan.faults.has(Fault::kExhaust)) plan.chunks = Between(random, 2, 4);
  Weigh(plan, {40, 10, 5, 5, 35, 5});
}

// Few keys and many writes, for long. A client that lost a memory server finds it again, with its
// own locks there.
void OutOfReach(Random& random, Plan& plan) {
  plan.parameters.node_bytes = OneOf<uint32_t>(random, {256, 256, 512});
  SetFillers(plan.work, Between(random, 1, 8), OneOf(random, {0u, 0u, 40u, 120u}));
  plan.work.filler_percent = plan.work.fillers == 0 ? 0 : Between(random, 20, 60);
  plan.work.prefill_percent = 50;
  plan.work.nap_percent = OneOf(random, {20u, 50u, 80u});
  plan.work.longest_nap_us = OneOf(random, {30u, 1000u, 100'000u});
  plan.work.writers_at_once = Between(random, 4, 8);
  plan.network.verbs_per_partition = OneOf(random, {100u, 400u, 1500u});
  plan.network.most_partitions = OneOf(random, {4u, 16u, 64u});
  Weigh(plan, {10, 2, 20, 25, 20, 20});
}

// Links that are often down, but briefly. Clients stay and live.
void ShortPartitions(Random& random, Plan& plan) {
  plan.clients_stay = true;
  plan.kills = 0;
  plan.pauses = 0;
  plan.network.verbs_per_partition = OneOf(random, {50u, 100u, 300u});
  plan.network.most_partitions = 64;
  plan.network.longest_partition = std::chrono::microseconds(OneOf(random, {200, 2000, 20'000}));
  plan.network.connection_timeout = std::chrono::microseconds(OneOf(random, {0, 0, 100}));
  plan.network.observes_death = std::chrono::microseconds(100);
}

// Sessions that close while a memory server is unreachable, and leave locks and packets behind.
// Other sessions, of the same and other clients, use the same keys.
void Reopened(Random& random, Plan& plan) {
  OutOfReach(random, plan);
  SetFillers(plan.work, Between(random, 1, 3), 0);
  plan.work.filler_percent = 0;
  plan.work.nap_percent = OneOf(random, {0u, 20u});
  plan.work.longest_nap_us = OneOf(random, {100u, 1000u});
  AtMostClients(plan, Between(random, 2, 3));
  for (ClientPlan& client : plan.clients) {
    client.sessions = Between(random, 5, 7);
    client.coroutines = Between(random, 1, 3);
  }
  ShortPartitions(random, plan);
  // A session that does not reopen leaves the memory server alone for longer than the others work.
  plan.reopen_percent = 100;
  plan.network.verbs_per_partition = OneOf(random, {60u, 100u});
  plan.network.most_partitions = 1000;
  plan.network.longest_partition = std::chrono::microseconds(200);
  Weigh(plan, {20, 1, 30, 15, 30, 5});
}

// Sessions that lose the memory server while the WRITE of a value block is in flight, beside
// sessions of the same client that need memory for such blocks.
void LateBlocks(Random& random, Plan& plan) {
  BlocksAgain(random, plan);
  SetFillers(plan.work, Between(random, 8, 24), 0);
  plan.work.scan_keys = plan.work.keys();
  plan.work.writers_at_once = 8;
  ShortPartitions(random, plan);
  // Updates wait for their turns while blocks are being written.
  plan.lock_table_bytes = sizeof(uint64_t);
  plan.network.longest_partition = std::chrono::microseconds(OneOf(random, {2000, 20'000}));
  // Blocks of another compute server are not reused here.
  AtMostClients(plan, Between(random, 1, 2));
  for (ClientPlan& client : plan.clients) {
    client.sessions = Between(random, 4, 6);
    client.coroutines = Between(random, 1, 3);
  }
  Weigh(plan, {20, 2, 10, 5, 50, 5});
}

// Memory servers die during the run, and others take their addresses. Most data is gone, and
// clients that stay must not take the new servers for the old.
void Restarted(Random& random, Plan& plan) {
  plan.parameters.node_bytes = 256;
  SetFillers(plan.work, Between(random, 2, 16), Between(random, 0, 100));
  plan.work.filler_percent = plan.work.fillers == 0 ? 0 : 50;
  plan.work.prefill_percent = 50;
  plan.work.nap_percent = OneOf(random, {0u, 20u});
  plan.kills = 0;
  Weigh(plan, {30, 3, 20, 20, 15, 12});
}

// Memory servers join while leaves split, and clients reopen the store repeatedly. Earlier clients
// find new servers by the pointers to them.
void Joined(Random& random, Plan& plan) {
  FewKeysManySplits(random, plan);
  if (plan.faults.has(Fault::kKill)) plan.kills = Between(random, 4, 12);
  plan.network.observes_death = std::chrono::microseconds(100);
}

// Memory servers that stop, for less or more than a lease, or are slow, while clients need them.
void Stalled(Random& random, Plan& plan) {
  FewKeysManySplits(random, plan);
  plan.network.observes_death = {};
}

constexpr Profile kProfiles[] = {
    {"mixed", "anything", nullptr},
    {"few_keys_many_splits", "two to eight hot keys in leaves that split all the time",
     FewKeysManySplits},
    {"hot_key", "one to three keys, all wanted by all", HotKey},
    {"long_pauses", "few keys, and clients that outlive their leases", LongPauses},
    {"one_slot", "lock tables of one slot", OneSlot},
    {"scans", "scans of everything while leaves split", Scans},
    {"deep_tree", "long keys, small nodes, small caches: many levels", DeepTree},
    {"blocks", "values in blocks", Blocks},
    {"stale_caches", "large caches, and a tree that outgrows them", StaleCaches},
    {"seen_in_part", "leaves of several groups that split where everybody is", SeenInPart},
    {"full_leaf", "one leaf, nearly full, whose keys come and go", FullLeaf},
    {"scanned_leaf", "one leaf whose keys move while it is scanned", ScannedLeaf},
    {"young_tree", "a tree that grows from nothing, with long keys", YoungTree},
    {"far_siblings", "splits across servers with little memory", FarSiblings},
    {"blocks_again", "values in blocks that are used again at once", BlocksAgain},
    {"out_of_reach", "few keys, and memory servers that clients cannot reach for a while",
     OutOfReach},
    {"reopened", "few keys, and sessions that close while memory servers are out of reach",
     Reopened},
    {"restarted", "memory servers that die, and others in their places", Restarted},
    {"joined", "memory servers that join later, and clients that come again", Joined},
    {"late_blocks", "values in blocks whose WRITEs land late, and sessions that want memory",
     LateBlocks},
    {"stalled", "memory servers that stop for a while, or go slow", Stalled},
    {"batches", "many writes together, and leaves that they split into many", Batches},
    {"crowds", "sessions of many coroutines, whose writes go out together", Crowds},
    {"churn", "keys that come and go in waves: leaves split and merge all the time", Churn},
    {"idle_churn", "the same, beside clients that know the tree as it was long ago", IdleChurn},
    {"worn", "keys that come and go in memory whose generations are nearly used up", Worn},
    {"past_leases", "clients that outlive their leases while others merge, die and sweep",
     PastLeases},
    {"lost_leases", "clients that lose the lease with one memory server while others sweep",
     LostLeases},
    {"late_threads", "the same, while threads stop before they give back what they replaced",
     LateThreads},
    {"late_calls", "control calls that are handled after their callers have given up, and sweeps",
     LateCalls},
    {"low_root", "a tree of few leaves, whose root is raised and lowered all the time", LowRoot},
    {"late_root", "the same, while clients stop between a split and a new root", LateRoot},
    {"long_keys", "clustered keys of up to 250 bytes", nullptr},
    {"modifies", "read-modify-writes of one key and of many", Modifies},
    {"in_order", "keys that come in order, and leaves with prefixes of their own", InOrder},
    {"ranges", "ranges that are deleted, scans of keys alone, and cursors that rest", Ranges},
    {"lagging", "values in blocks, and sessions that go on after their leases have ended", Lagging},
    {"blocks_in_groups", "groups of writes that replace values in blocks", BlocksInGroups},
    {"repaired", "memory servers that die for good, and repairs of the tree", Repaired},
    {"late_links", "WRITEs that link blocks take longer than leases last, while others sweep",
     LateLinks},
    {"late_undos", "WRITEs that undo merges take longer than leases last", LateUndos},
    {"lost_parents", "memory servers with internal nodes die for good, and slow repairs meet",
     LostParents},
    {"given_up", "values in blocks that others replace, in memory that is given up late", GivenUp},
    {"expiries", "keys that expire, and are put again, by clients whose clocks differ", Expiries},
    {"planned_modifies", "batches of read-modify-writes of values in blocks", PlannedModifies},
    {"returned", "memory servers that are killed and come back with their memory", Returned},
    {"swept_returns", "the same, while leases end, nodes merge and clients sweep", SweptReturns},
    {"late_returns", "the same, for longer than they are waited for, or with links that fail",
     LateReturns},
};
static_assert(kProfiles[kPartitionProfile].name == "out_of_reach");
static_assert(kProfiles[kFirstReturnProfile].name == "returned");
static_assert(std::size(kProfiles) == kFirstReturnProfile + kReturnProfiles);

}  // namespace

std::span<const Profile> Profiles() { return kProfiles; }

const Profile* FindProfile(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kProfiles), std::end(kProfiles),
                                         [&](const Profile& one) { return one.name == name; });
  return found == std::end(kProfiles) ? nullptr : found;
}

}  // namespace gossamer::simulator
