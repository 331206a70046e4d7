#include "compute/verify/sim/plan.h"

#include <algorithm>
#include <initializer_list>

namespace gossamer::simulator {
namespace {

// Also limited by the bits of values' names: a run's keys, fillers included, and its clients'
// sessions.
constexpr uint32_t kMaxHotKeys = 4096;
constexpr uint32_t kMaxClients = 256;
constexpr uint32_t kMaxServers = 64;

constexpr uint32_t kMixedWeights[] = {30, 3,  20,
                                      20, 12, 15};  // get, scan, put, insert, update, delete

template <typename T>
T OneOf(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.Below(values.size())];
}

uint32_t Between(Random& random, uint32_t least, uint32_t most) {
  return least + static_cast<uint32_t>(random.Below(uint64_t{most} - least + 1));
}

bool Chance(Random& random, uint32_t percent) { return random.Below(100) < percent; }

void Weigh(Plan& plan, std::initializer_list<uint32_t> weights) {
  std::copy(weights.begin(), weights.end(), plan.work.weights.begin());
}

void SetFillers(WorkPlan& work, uint32_t hot_keys, uint32_t keys) {
  work.hot_keys = std::max(1u, std::min(work.hot_keys, hot_keys));
  work.fillers = keys / work.hot_keys;
}

void AtMostClients(Plan& plan, uint32_t clients) {
  plan.clients.resize(std::min<size_t>(plan.clients.size(), clients));
}

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
    client = {Between(random, 1, 3), Between(random, 3, 5), 1 << 20, client.techniques,
              Between(random, 1, 2)};
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
  plan.work.longest_nap_us = 1000;
  AtMostClients(plan, Between(random, 1, 3));
  for (ClientPlan& client : plan.clients) {
    client.sessions = Between(random, 2, 4);
    client.coroutines = Between(random, 1, 3);
  }
  ShortPartitions(random, plan);
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
};
// The profiles that a seed draws; then later additions, and last the one that comes with its fault.
constexpr size_t kLaterProfiles = 4;
constexpr size_t kDrawnProfiles = 11;
constexpr size_t kPartitionProfile = kDrawnProfiles + kLaterProfiles;
static_assert(kProfiles[kPartitionProfile].name == "out_of_reach");

constexpr std::string_view kAnyProfile = "any";

const Profile* FindProfile(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kProfiles), std::end(kProfiles),
                                         [&](const Profile& one) { return one.name == name; });
  return found == std::end(kProfiles) ? nullptr : found;
}

void DrawWork(Random& random, Plan& plan) {
  WorkPlan& work = plan.work;
  std::copy(std::begin(kMixedWeights), std::end(kMixedWeights), work.weights.begin());
  if (Chance(random, 30)) {  // any mix, with each operation in it
    for (uint32_t& weight : work.weights) weight = Between(random, 1, 30);
  }
  work.skew =
      OneOf(random, {Skew::kUniform, Skew::kUniform, Skew::kZipf, Skew::kOneLeaf, Skew::kAscend});
  work.fillers = OneOf(random, {0u, 1u, 3u});
  work.filler_percent = work.fillers == 0 ? 0 : Between(random, 10, 60);
  work.prefill_percent = OneOf(random, {0u, 20u, 50u, 100u});
  work.long_percent = OneOf(random, {0u, 0u, 0u, 5u, 20u});
  work.longest_value = Between(random, 17, 300);
  work.nap_percent = OneOf(random, {0u, 0u, 5u, 30u});
  work.scan_keys = Between(random, 4, std::max(4u, work.keys()));
  work.writers_at_once = Between(random, 2, 5);
}

// All techniques in three runs of five. In the others all clients have the same, or each its own.
// Drawn from a separate stream: apart from techniques, a seed means the same run whatever the flag
// says.
void SetTechniques(const std::optional<TechniqueSet>& fixed, Plan& plan) {
  constexpr uint64_t kTechniqueStream = ~uint64_t{2};
  constexpr uint64_t kSets = 1 << kTechniqueNames.size();
  Random random(plan.seed, kTechniqueStream);
  const auto draw = [&] { return TechniquesOf(static_cast<uint32_t>(random.Below(kSets))); };
  const uint64_t dice = random.Below(5);
  const TechniqueSet drawn = dice < 3 ? TechniqueSet() : draw();
  const TechniqueSet common = fixed.value_or(drawn);
  plan.on_chip_locks = common.on_chip_locks;
  for (ClientPlan& client : plan.clients) {
    client.techniques = !fixed && dice == 4 ? draw().client : common.client;
  }
}

// A requested fault is present in most runs and missing in some, so that others are seen without
// it.
void DrawNetwork(Random& random, Plan& plan) {
  using std::chrono::microseconds;
  const auto has = [&](Fault fault) { return plan.faults.has(fault) && Chance(random, 85); };
  SimOptions& network = plan.network;
  network.seed = plan.seed;
  network.faults.tear = has(Fault::kTear);
  network.faults.delay = has(Fault::kDelay);
  network.faults.reorder = has(Fault::kReorder);
  network.faults.write_back = has(Fault::kWriteBack);
  network.faults.break_queue_pairs = has(Fault::kBreak);
  network.faults.cut = has(Fault::kCut);
  network.writes_per_cut = OneOf(random, {4u, 16u, 64u});
  network.most_cuts = OneOf(random, {1u, 2u, 4u});
  network.verbs_per_break = OneOf(random, {300u, 1000u, 3000u});
  network.verbs_per_long_delay = OneOf(random, {4u, 16u, 64u});
  network.longest_delay = OneOf(random, {microseconds(10), microseconds(50), microseconds(1000)});
  // Where deaths are not observed, clients poll the locks of the dead until their leases end: long
  // runs.
  network.observes_death = microseconds(OneOf(random, {0, 100, 100, 100, 100, 100}));
}

// In one run of seven. From a separate stream, so that other seeds keep their runs.
std::optional<size_t> DrawLaterProfile(uint64_t seed) {
  constexpr uint64_t kLaterStream = ~uint64_t{4};
  Random random(seed, kLaterStream);
  if (random.Below(7) != 0) return std::nullopt;
  return kDrawnProfiles + random.Below(kLaterProfiles);
}

// In one run of four, or in nearly all runs of a profile about it. From a separate stream: a seed
// without this fault keeps the run it had before the fault existed. Returns true if the run may be
// about partitions alone.
bool DrawPartitions(const RunOptions& options, Plan& plan) {
  using std::chrono::microseconds;
  constexpr uint64_t kPartitionStream = ~uint64_t{3};
  Random random(plan.seed, kPartitionStream);
  constexpr std::string_view kAboutIt[] = {"out_of_reach", "reopened", "late_blocks"};
  const bool is_about_it = std::ranges::find(kAboutIt, options.profile) != std::end(kAboutIt);
  if (!plan.faults.has(Fault::kPartition) || !Chance(random, is_about_it ? 95 : 25)) return false;
  SimOptions& network = plan.network;
  network.faults.partition = true;
  network.verbs_per_partition = OneOf(random, {300u, 1000u, 3000u});
  network.most_partitions = OneOf(random, {2u, 8u, 32u});
  network.longest_partition = microseconds(OneOf(random, {200, 20'000, 300'000}));
  network.connection_timeout = microseconds(OneOf(random, {0, 100, 5'000, 40'000}));
  plan.clients_stay = Chance(random, 75);
  return Chance(random, 30);
}

// In one run of three. From a separate stream, as above.
void DrawReopens(const RunOptions& options, Plan& plan) {
  constexpr uint64_t kReopenStream = ~uint64_t{5};
  Random random(plan.seed, kReopenStream);
  const bool is_about_it = options.profile == "reopened";
  if (!plan.faults.has(Fault::kReopen) || !Chance(random, is_about_it ? 95 : 33)) return;
  plan.reopens = OneOf(random, {1u, 2u, 4u, 16u});
  plan.reopen_percent = OneOf(random, {10u, 50u, 100u});
}

// In one run of six in which no memory server dies. From a separate stream, as above.
void DrawMembership(const RunOptions& options, Plan& plan) {
  constexpr uint64_t kMembershipStream = ~uint64_t{9};
  Random random(plan.seed, kMembershipStream);
  const bool is_drawn = Chance(random, options.profile == "joined" ? 95 : 17);
  if (!is_drawn || plan.deaths != 0) return;
  const uint32_t joins = OneOf(random, {0u, 1u, 1u, 3u});
  const uint32_t record_faults = OneOf(random, {0u, 1u, 4u, 16u});
  if (plan.faults.has(Fault::kJoin)) plan.joins = joins;
  if (plan.faults.has(Fault::kRecord)) plan.record_faults = record_faults;
  plan.low_mtu_percent = OneOf(random, {0u, 0u, 0u, 50u});
  plan.look_us = OneOf(random, {20u, 200u, 2000u});
}

// In one run of five. From a separate stream, as above.
void DrawLostCalls(Plan& plan) {
  constexpr uint64_t kCallStream = ~uint64_t{8};
  Random random(plan.seed, kCallStream);
  if (!plan.faults.has(Fault::kCalls) || !Chance(random, 20)) return;
  plan.network.faults.lose_calls = true;
  plan.network.calls_per_loss = OneOf(random, {5u, 20u, 50u});
}

// A memory server dies in one run of twelve, which tests little else. From a separate stream, as
// above.
void DrawServerFaults(const RunOptions& options, Plan& plan) {
  constexpr uint64_t kServerStream = ~uint64_t{6};
  Random random(plan.seed, kServerStream);
  const bool dies = Chance(random, options.profile == "restarted" ? 95 : 8);
  const bool stalls = Chance(random, options.profile == "stalled" ? 95 : 20);
  if (plan.faults.has(Fault::kRestart) && dies) {
    plan.deaths = OneOf(random, {1u, 1u, 2u});
    plan.successor_percent = 80;
    plan.clients_stay = true;
  }
  if (plan.faults.has(Fault::kStall) && stalls) {
    plan.stalls = OneOf(random, {1u, 4u, 16u});
    plan.longest_stall_ms = OneOf(random, {1u, 20u, 400u});
  }
}

// Memory for everything that a run may write and a little more, or too little.
void DrawMemory(Random& random, Plan& plan) {
  const WorkPlan& work = plan.work;
  plan.chunk_bytes = OneOf<uint64_t>(random, {4096, 16 << 10, 64 << 10});
  const uint64_t clients = plan.clients.size();
  uint64_t bytes = uint64_t{work.keys()} * plan.parameters.node_bytes + (256 << 10) +
                   clients * plan.chunk_bytes * 4;
  if (work.long_percent != 0) bytes += uint64_t{plan.operations} * (work.longest_value + 64) * 2;
  if (plan.faults.has(Fault::kExhaust) && Chance(random, 25)) {
    const uint32_t chunks = Between(random, 1, 2 * static_cast<uint32_t>(clients));
    if (plan.chunks == 0) plan.chunks = chunks;
  }
  if (plan.chunks != 0) {
    plan.chunk_bytes = 4096;
    bytes = kHeapOffset + plan.chunks * plan.chunk_bytes;
  }
  plan.memory_bytes = (bytes + plan.chunk_bytes) / 4096 * 4096;
}

}  // namespace

std::span<const Profile> Profiles() { return kProfiles; }

Status Validate(const RunOptions& options) {
  const auto within = [](const char* flag, uint32_t value, uint32_t most) -> Status {
    if (value >= 1 && value <= most) return Ok();
    return MakeError(Code::kInvalidArgument, std::string(flag) + "=" + std::to_string(value) +
                                                 ": give 1 to " + std::to_string(most));
  };
  BOOST_OUTCOME_TRYV(within("--clients", options.clients, kMaxClients));
  BOOST_OUTCOME_TRYV(within("--servers", options.servers, kMaxServers));
  BOOST_OUTCOME_TRYV(within("--keys", options.keys, kMaxHotKeys));
  BOOST_OUTCOME_TRYV(within("--operations", options.operations, 10'000'000));
  if (options.profile == kAnyProfile || FindProfile(options.profile) != nullptr) return Ok();
  std::string names = ", any";
  for (const Profile& profile : kProfiles) names += ", " + std::string(profile.name);
  return MakeError(Code::kInvalidArgument, "--profile: there is no profile '" + options.profile +
                                               "'; give one of" + names.substr(1));
}

Plan DrawPlan(const RunOptions& options, uint64_t seed) {
  constexpr uint64_t kPlanStream = ~uint64_t{0};
  Random random(seed, kPlanStream);
  Plan plan;
  plan.seed = seed;
  plan.servers = options.servers;
  plan.operations = options.operations;
  plan.faults = options.faults;
  plan.parameters.node_bytes = OneOf(random, {256u, 256u, 256u, 256u, 512u, 1024u});
  plan.parameters.max_key_bytes = OneOf<uint16_t>(random, {8, 8, 16, 32});
  plan.parameters.inline_value_bytes = OneOf<uint16_t>(random, {8, 16, 16});
  plan.lock_table_bytes = OneOf<uint64_t>(random, {8, 64, 1024, 1024, 4096});
  for (uint32_t i = 0; i < options.clients; ++i) {
    plan.clients.push_back({Between(random, 1, 3),
                            Between(random, 1, 5),
                            OneOf<uint64_t>(random, {0, 1024, 4096, 64 << 10, 1 << 20}),
                            {},
                            0});
  }
  SetTechniques(options.techniques, plan);
  plan.work.hot_keys = options.keys;
  DrawWork(random, plan);
  DrawNetwork(random, plan);
  const auto times = [&](Fault fault) {
    return plan.faults.has(fault) ? OneOf(random, {0u, 1u, 1u, 2u, 4u}) : 0u;
  };
  plan.kills = times(Fault::kKill);
  plan.pauses = times(Fault::kPause);
  plan.lease_ms = 100;
  plan.longest_pause_ms = OneOf(random, {1u, 60u, 250u});
  // Far longer than any lease: Contended means that a lock was left behind.
  plan.lock_timeout_ms = 10'000;
  // Every other run has no profile.
  size_t drawn = Chance(random, 50) ? 0 : random.Below(kDrawnProfiles);
  drawn = DrawLaterProfile(seed).value_or(drawn);
  if (DrawPartitions(options, plan)) drawn = kPartitionProfile;
  DrawReopens(options, plan);
  DrawServerFaults(options, plan);
  DrawLostCalls(plan);
  DrawMembership(options, plan);
  const Profile* profile =
      options.profile == kAnyProfile ? &kProfiles[drawn] : FindProfile(options.profile);
  plan.profile = profile->name;
  if (profile->narrow != nullptr) profile->narrow(random, plan);
  DrawMemory(random, plan);
  return plan;
}

namespace {

std::string PartitionsText(const Plan& plan) {
  const SimOptions& network = plan.network;
  if (!network.faults.partition) return "";
  const auto us = [](std::chrono::nanoseconds time) { return std::to_string(time.count() / 1000); };
  return ", up to " + std::to_string(network.most_partitions) + " partitions of up to " +
         us(network.longest_partition) + " us, connections tried for " +
         us(network.connection_timeout) + " us by clients that " +
         (plan.clients_stay ? "stay" : "go");
}

std::string ReopensText(const Plan& plan) {
  if (plan.reopens == 0) return "";
  return ", " + std::to_string(plan.reopens) + " sessions or stores closed and opened, and after " +
         std::to_string(plan.reopen_percent) + " % of losses";
}

std::string ServerFaultsText(const Plan& plan) {
  std::string text;
  if (plan.deaths != 0) {
    text += ", " + std::to_string(plan.deaths) + " memory servers die, " +
            std::to_string(plan.successor_percent) + " % with a successor";
  }
  if (plan.stalls != 0) {
    text += ", " + std::to_string(plan.stalls) + " stalls of up to " +
            std::to_string(plan.longest_stall_ms) + " ms";
  }
  if (plan.has_record()) {
    text += ", " + std::to_string(plan.joins) + " memory servers join, " +
            std::to_string(plan.record_faults) + " faults of a record that is looked at each " +
            std::to_string(plan.look_us) + " us";
  }
  return text;
}

}  // namespace

std::string ToString(const Plan& plan) {
  constexpr const char* kSkews[] = {"uniform", "zipf", "one leaf", "ascending"};
  uint32_t sessions = 0;
  uint32_t coroutines = 0;
  uint32_t without = 0;
  for (const ClientPlan& client : plan.clients) {
    const Techniques& has = client.techniques;
    if (!has.combine_commands || !has.hierarchical_locks || !has.two_level_versions) ++without;
    sessions += client.sessions;
    coroutines += client.sessions * client.coroutines;
  }
  const auto number = [](uint64_t value) { return std::to_string(value); };
  return std::string(plan.profile) + ": " + number(plan.operations) + " operations on " +
         number(plan.work.hot_keys) + " hot keys and " +
         number(plan.work.keys() - plan.work.hot_keys) + " others (" +
         kSkews[static_cast<size_t>(plan.work.skew)] + "), " + number(plan.servers) +
         " servers of " + number(plan.memory_bytes >> 10) + " KiB with lock tables of " +
         number(plan.lock_table_bytes) + " B " + (plan.on_chip_locks ? "on chip" : "in DRAM") +
         ", nodes of " + number(plan.parameters.node_bytes) + " B, keys of up to " +
         number(plan.parameters.max_key_bytes) + " B; " + number(plan.clients.size()) +
         " clients with " + number(sessions) + " sessions and " + number(coroutines) +
         " coroutines, " + number(without) + " of them without some technique; faults " +
         ToString(plan.faults) + ", " + number(plan.kills) + " kills, " + number(plan.pauses) +
         " pauses" + PartitionsText(plan) + ReopensText(plan) + ServerFaultsText(plan);
}

}  // namespace gossamer::simulator
