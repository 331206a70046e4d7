#include "compute/verify/sim/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "compute/verify/sim/draw.h"
#include "compute/verify/sim/profiles.h"

namespace gossamer::simulator {
namespace {

// Also limited by the bits of values' names: a run's keys, fillers included, and its clients'
// sessions.
constexpr uint32_t kMaxHotKeys = 4096;
constexpr uint32_t kMaxClients = 256;
constexpr uint32_t kMaxServers = 64;

constexpr uint32_t kMixedWeights[] = {30, 3,  20,
                                      20, 12, 15};  // get, scan, put, insert, update, delete

constexpr std::string_view kAnyProfile = "any";

void DrawWork(Random& random, Plan& plan) {
  WorkPlan& work = plan.work;
  std::copy(std::begin(kMixedWeights), std::end(kMixedWeights), work.weights.begin());
  if (Chance(random, 30)) {  // any mix, with each operation in it
    for (size_t i = 0; i < std::size(kMixedWeights); ++i) work.weights[i] = Between(random, 1, 30);
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

// In one run of twelve. From a separate stream, as above.
std::optional<size_t> DrawReturnProfile(const RunOptions& options, uint64_t seed) {
  constexpr uint64_t kReturnProfileStream = ~uint64_t{18};
  Random random(seed, kReturnProfileStream);
  if (!options.faults.has(Fault::kReturn) || random.Below(12) != 0) return std::nullopt;
  return kFirstReturnProfile + random.Below(kReturnProfiles);
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

// Whether a run is about what the profile of this name is about: all runs of the profile, and one
// of four without a fixed one.
bool IsAbout(std::string_view profile, const RunOptions& options, Random& random) {
  const bool is_drawn = options.profile == kAnyProfile && Chance(random, 25);
  return is_drawn || options.profile == profile;
}

// From a separate stream, as above.
void DrawBatches(const RunOptions& options, Plan& plan) {
  constexpr uint64_t kBatchStream = ~uint64_t{10};
  Random random(plan.seed, kBatchStream);
  if (!IsAbout("batches", options, random)) return;
  plan.work.batch_percent = OneOf(random, {5u, 20u, 60u});
  plan.work.longest_batch = OneOf(random, {3u, 8u, 24u, 64u});
}

// Sessions with so many coroutines that their writes gather. A stream of its own, as above.
void DrawCrowds(const RunOptions& options, Plan& plan) {
  constexpr uint64_t kCrowdStream = ~uint64_t{11};
  Random random(plan.seed, kCrowdStream);
  if (!IsAbout("crowds", options, random)) return;
  for (ClientPlan& client : plan.clients) {
    client.sessions = Between(random, 1, 2);
    client.coroutines = Between(random, 6, 24);
    client.beat_us = OneOf(random, {10u, 30u, 100u});
  }
}

// Keys of up to 250 bytes, in clusters that share most of them. A stream of its own, as above.
void DrawLongKeys(const RunOptions& options, Plan& plan) {
  constexpr uint64_t kLongKeyStream = ~uint64_t{14};
  Random random(plan.seed, kLongKeyStream);
  if (!IsAbout("long_keys", options, random)) return;
  plan.parameters.node_bytes = OneOf(random, {512u, 512u, 1024u});
  plan.parameters.max_key_bytes = OneOf<uint16_t>(random, {40, 120, 250, 250});
}

uint32_t& WeightOf(Plan& plan, history::OperationKind kind) {
  return plan.work.weights[static_cast<size_t>(kind)];
}

// Modify and MultiModify, beside everything else. A stream of its own, as above.
void DrawModifies(const RunOptions& options, Plan& plan) {
  constexpr uint64_t kModifyStream = ~uint64_t{15};
  Random random(plan.seed, kModifyStream);
  if (!IsAbout("modifies", options, random)) return;
  WeightOf(plan, history::OperationKind::kModify) = OneOf(random, {10u, 40u, 100u});
}

// DeleteRange, scans of keys alone, and cursors that rest while others write, split, merge and
// delete, some for longer than leases. A stream of its own, as above.
void DrawRanges(const RunOptions& options, Plan& plan) {
  constexpr uint64_t kRangeStream = ~uint64_t{16};
  Random random(plan.seed, kRangeStream);
  if (!IsAbout("ranges", options, random)) return;
  WorkPlan& work = plan.work;
  uint32_t& scans = WeightOf(plan, history::OperationKind::kScan);
  scans = std::max(scans, Between(random, 4, 12));
  WeightOf(plan, history::OperationKind::kErase) = OneOf(random, {1u, 4u, 12u});
  work.erase_keys = std::min(work.keys(), OneOf(random, {8u, 32u, 128u}));
  work.keys_only_percent = OneOf(random, {20u, 60u});
  work.rest_percent = OneOf(random, {20u, 60u});
  work.longest_rest_us = OneOf(random, {50u, 1000u, 20'000u, 300'000u});
}

// Keys that expire, beside everything else. A stream of its own, as above.
void DrawExpiries(const RunOptions& options, Plan& plan) {
  constexpr uint64_t kExpiryStream = ~uint64_t{17};
  Random random(plan.seed, kExpiryStream);
  const bool is_drawn = options.profile == kAnyProfile && Chance(random, 10);
  if (!is_drawn && options.profile != "expiries") return;
  plan.work.expiring_percent = OneOf(random, {20u, 60u, 100u});
  plan.work.longest_life_ms = OneOf(random, {1u, 2u, 5u, 20u});
  plan.work.expire_us = OneOf(random, {0u, 300u, 1000u, 5000u});
  plan.clock_ppm = static_cast<int32_t>(Between(random, 0, 800)) - 400;
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
  // What clients had of it for later stays theirs until a sweep.
  bytes += uint64_t{plan.returns} * clients * plan.chunk_bytes * 2;
  if (plan.faults.has(Fault::kExhaust) && Chance(random, 25)) {
    const uint32_t chunks = Between(random, 1, 2 * static_cast<uint32_t>(clients));
    if (plan.chunks == 0) plan.chunks = chunks;
  }
  if (plan.chunks != 0) {
    plan.chunk_bytes = 4096;
    bytes = kHeapOffset + plan.chunks * plan.chunk_bytes;
  }
  plan.memory_bytes = (bytes + plan.chunk_bytes) / 4096 * 4096;
  if (plan.chunks_of_first != 0) {
    plan.chunk_bytes = 4096;
    plan.bytes_of_first = kHeapOffset + uint64_t{plan.chunks_of_first} * plan.chunk_bytes;
  }
}

}  // namespace

Status Validate(const RunOptions& options) {
  const auto within = [](const char* flag, uint32_t value, uint32_t most) -> Status {
    if (value >= 1 && value <= most) return Ok();
    return MakeError(Code::kInvalidArgument, fmt::format("{}={}: give 1 to {}", flag, value, most));
  };
  BOOST_OUTCOME_TRYV(within("--clients", options.clients, kMaxClients));
  BOOST_OUTCOME_TRYV(within("--servers", options.servers, kMaxServers));
  BOOST_OUTCOME_TRYV(within("--keys", options.keys, kMaxHotKeys));
  BOOST_OUTCOME_TRYV(within("--operations", options.operations, 10'000'000));
  if (options.profile == kAnyProfile || FindProfile(options.profile) != nullptr) return Ok();
  std::string names = ", any";
  for (const Profile& profile : Profiles()) names += ", " + std::string(profile.name);
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
    plan.clients.push_back({Between(random, 1, 3), Between(random, 1, 5),
                            OneOf<uint64_t>(random, {0, 1024, 4096, 64 << 10, 1 << 20}), 0, 0});
  }
  constexpr uint64_t kLockTableStream = ~uint64_t{2};
  Random lock_tables(plan.seed, kLockTableStream);
  plan.on_chip_locks = Chance(lock_tables, 80);
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
  drawn = DrawReturnProfile(options, seed).value_or(drawn);
  DrawReopens(options, plan);
  DrawServerFaults(options, plan);
  DrawLostCalls(plan);
  DrawMembership(options, plan);
  DrawBatches(options, plan);
  DrawCrowds(options, plan);
  const Profile* profile =
      options.profile == kAnyProfile ? &Profiles()[drawn] : FindProfile(options.profile);
  plan.profile = profile->name;
  if (profile->narrow != nullptr) profile->narrow(random, plan);
  DrawLongKeys(options, plan);
  DrawModifies(options, plan);
  DrawRanges(options, plan);
  DrawExpiries(options, plan);
  DrawMemory(random, plan);
  return plan;
}

}  // namespace gossamer::simulator
