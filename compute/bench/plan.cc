#include "compute/bench/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "common/embedded_memory.h"
#include "common/text/escape.h"
#include "common/text/human.h"
#include "common/text/size_text.h"
#include "common/text/text_file.h"
#include "compute/bench/gathering.h"
#include "compute/bench/keys.h"
#include "proto/leaf_geometry.h"
#include "proto/store_record.h"
#include "proto/value_block.h"

namespace gossamer::bench {
namespace {

constexpr uint64_t kMaxThreads = 1024;
constexpr uint64_t kMaxCoroutines = 65'536;
constexpr uint64_t kMaxBatch = 65'536;
constexpr uint64_t kMaxRecords = uint64_t{1} << 40;
constexpr uint64_t kMaxOperations = uint64_t{1} << 50;
constexpr uint64_t kMaxConnections = 16'384;
constexpr uint64_t kMaxSessions = 64;
constexpr uint64_t kMaxPipeline = 65'536;
constexpr uint64_t kMaxProgressMs = 3'600'000;
constexpr uint64_t kMaxErrorSeconds = 86'400;
constexpr uint64_t kMaxInserts = uint64_t{1} << 33;  // RecordIds keeps one bit for each

Error WrongFlag(const std::string& sentence) { return MakeError(Code::kInvalidArgument, sentence); }

Status InRange(const char* flag, uint64_t value, uint64_t low, uint64_t high) {
  if (value >= low && value <= high) return Ok();
  return WrongFlag(
      fmt::format("--{}={} is not from {} to {}", flag, value, HumanCount(low), HumanCount(high)));
}

Status CheckNumbers(const FlagValues& flags) {
  for (const auto& [flag, value, low, high] : {
           std::tuple{"records", flags.records, uint64_t{1}, kMaxRecords},
           {"operations", flags.operations, 0, kMaxOperations},
           {"processes", flags.processes, 1, kMaxProcesses},
           {"threads", flags.threads, 1, kMaxThreads},
           {"sessions", flags.sessions, 1, kMaxSessions},
           {"coroutines", flags.coroutines, 1, kMaxCoroutines},
           {"batch", flags.batch, 1, kMaxBatch},
           {"value_bytes", flags.value_bytes, 0, kMaxValueBytes},
           {"pipeline", flags.pipeline, 1, kMaxPipeline},
           {"connections", flags.connections, 1, kMaxConnections},
           {"progress_ms", flags.progress_ms, 0, kMaxProgressMs},
           {"max_error_seconds", flags.max_error_seconds, 0, kMaxErrorSeconds},
       }) {
    BOOST_OUTCOME_TRYV(InRange(flag, value, low, high));
  }
  if (!(flags.theta > 0 && flags.theta < 1)) {
    return WrongFlag(fmt::format("--theta={:f} is not between 0 and 1 (exclusive)", flags.theta));
  }
  return Ok();
}

Status PlanSessions(const FlagValues& flags, RunnerOptions& runner) {
  runner.sessions = static_cast<uint32_t>(flags.sessions);
  if (flags.sessions == 1) return Ok();
  if (!flags.redis.empty() || !flags.memcached.empty()) {
    return WrongFlag("--sessions is of a store: for a server give --connections");
  }
  if (flags.batch > 1) {
    return WrongFlag(
        "--sessions share the coroutines of a thread, and --batch has none: leave one out");
  }
  if (flags.sessions <= flags.coroutines) return Ok();
  return WrongFlag(fmt::format("--sessions={} is more than --coroutines={}, which they share",
                               flags.sessions, flags.coroutines));
}

Status PlanPhases(const FlagValues& flags, Plan& plan) {
  plan.load = flags.phase == "load" || flags.phase == "both";
  plan.run = flags.phase == "run" || flags.phase == "both";
  plan.warm_up = flags.warm_up && plan.run;
  if (!plan.load && !plan.run) {
    return WrongFlag("--phase=" + flags.phase + " is not one of load, run, both");
  }
  if (!flags.local.empty() && !plan.load) {
    return WrongFlag("--local opens a store of its own, which is empty: use --phase=both or load");
  }
  return Ok();
}

// One of several processes that run one benchmark. Its rank is known once all are there.
Status PlanProcesses(const FlagValues& flags, RunnerOptions& runner) {
  runner.share.processes = static_cast<uint32_t>(flags.processes);
  if (flags.barrier.empty()) {
    if (!flags.given.contains("processes")) return Ok();
    return WrongFlag("--processes find each other by a name: give --barrier=NAME too");
  }
  if (!flags.given.contains("processes")) {
    return WrongFlag("--barrier is of several processes: give --processes=N too");
  }
  if (!IsValidStoreName(flags.barrier)) {
    return WrongFlag("--barrier=" + Escaped(flags.barrier) +
                     ": use 1 to 64 of the characters A-Z a-z 0-9 . _ -");
  }
  if (!flags.local.empty()) {
    return WrongFlag("--local is a store of one process: leave out --barrier");
  }
  if (flags.progress_ms != 0) {
    return WrongFlag("--progress_ms is of one process: leave out --barrier");
  }
  return Ok();
}

Status PlanWorkload(const FlagValues& flags, RunnerOptions& runner) {
  const std::optional<Workload> workload = FindWorkload(flags.workload);
  if (!workload)
    return WrongFlag("--workload=" + flags.workload + " is not one of a, b, c, d, e, f, u");
  runner.workload = *workload;
  if (!flags.distribution.empty()) {
    const std::optional<Distribution> distribution = ParseDistribution(flags.distribution);
    if (!distribution) {
      return WrongFlag("--distribution=" + flags.distribution +
                       " is not one of uniform, zipfian, latest");
    }
    runner.workload.distribution = *distribution;
  }
  return Ok();
}

Status PlanLoadOrder(const FlagValues& flags, bool loads, RunnerOptions& runner) {
  const std::optional<LoadOrder> order = ParseLoadOrder(flags.load_order);
  if (!order) {
    return WrongFlag("--load_order=" + flags.load_order + " is not one of " + LoadOrderNames());
  }
  if (*order == LoadOrder::kFile && flags.keys.empty()) {
    return WrongFlag("--load_order=file is that of --keys=FILE: give a file");
  }
  if (loads && *order == LoadOrder::kRuns && runner.batch == 1) {
    return WrongFlag(
        "--load_order=runs with --batch=1 is random order: give a run's length by --batch");
  }
  runner.load_order = *order;
  return Ok();
}

// The most records that the run inserts. A twentieth of the operations are inserts; so many more
// are 20 standard deviations. Of several processes, each has every so many-th id.
uint64_t MostInserts(const Plan& plan) {
  const RunnerOptions& runner = plan.runner;
  if (!plan.run || !runner.workload.has_inserts()) return 0;
  const uint64_t processes = runner.share.processes;
  const uint64_t operations = (runner.operations + processes - 1) / processes;
  return processes * std::min(operations, operations / 10 + 100);
}

// The flags of a store in this process. Its memory is `sized` already, or fits the records.
void FitLocal(const Plan& plan, bool sized, LocalOptions& local) {
  const RunnerOptions& runner = plan.runner;
  uint32_t key_bytes = KeyCodec(runner.keys).max_key_bytes();
  local.parameters.max_key_bytes = static_cast<uint16_t>(key_bytes);
  if (runner.value_bytes <= kMaxInlineValueBytes) {
    local.parameters.inline_value_bytes = static_cast<uint16_t>(runner.value_bytes);
  }
  if (sized) return;
  if (const KeyList* const list = runner.keys.list.get(); list != nullptr) {
    // By the mean length. Entries of different lengths take a byte more.
    key_bytes -= list->longest();
    key_bytes += static_cast<uint32_t>(list->bytes() / list->size()) + 2;
  }
  local.memory_bytes = MemoryFor(runner.records + MostInserts(plan), key_bytes, runner.value_bytes);
  // Each thread has a chunk of its own for new nodes.
  if (plan.research) local.memory_bytes += sherman::kChunkBytes * runner.threads;
}

// Keys of numbers, all of one length.
Status PlanNumbers(const FlagValues& flags) {
  BOOST_OUTCOME_TRYV(InRange("key_bytes", flags.key_bytes, kMinBenchKeyBytes, kMaxBenchKeyBytes));
  const uint64_t prefix = flags.key_prefix.size();
  if (prefix == 0 || prefix + kMinNumberBytes <= flags.key_bytes) return Ok();
  const std::string what =
      fmt::format("--key_prefix={} is {} long, and a number takes {} more",
                  Quoted(flags.key_prefix), HumanQuantity(prefix, "byte"), kMinNumberBytes);
  if (prefix + kMinNumberBytes > kMaxBenchKeyBytes) {
    return WrongFlag(
        fmt::format("{}, which is more than the {} that a key may have: give a prefix of "
                    "at most {} bytes",
                    what, kMaxBenchKeyBytes, kMaxBenchKeyBytes - kMinNumberBytes));
  }
  return WrongFlag(
      fmt::format("{}, which is more than --key_bytes={}: give --key_bytes={} at least", what,
                  flags.key_bytes, prefix + kMinNumberBytes));
}

Status PlanYcsb(const FlagValues& flags, const KeyChoice& keys) {
  if (flags.given.contains("key_bytes")) {
    return WrongFlag("--key_form=ycsb: its keys have lengths of their own: leave out --key_bytes");
  }
  const uint64_t longest = KeyCodec(keys).max_key_bytes();
  if (longest <= kMaxBenchKeyBytes) return Ok();
  return WrongFlag(fmt::format(
      "--key_form=ycsb: its keys have up to {} bytes{}, and a store takes "
      "keys of at most {}",
      longest, flags.key_prefix.empty() ? "" : " with --key_prefix", kMaxBenchKeyBytes));
}

// The part of UseKeys that needs no file.
Status PlanKeyList(const FlagValues& flags, Plan& plan) {
  const bool has_form = flags.key_form != KeyFormName(KeyForm::kNumbers);
  if (has_form || flags.given.contains("key_bytes")) {
    return WrongFlag(fmt::format("--keys: the lines of the file are the keys: leave out --key_{}",
                                 has_form ? "form" : "bytes"));
  }
  if (flags.key_prefix.size() >= kMaxBenchKeyBytes) {
    return WrongFlag(
        fmt::format("--key_prefix={} leaves nothing of the {} bytes that a key may have",
                    Quoted(flags.key_prefix), kMaxBenchKeyBytes));
  }
  KeyListOptions list;
  list.path = flags.keys;
  list.most_lines = flags.given.contains("records") ? flags.records + MostInserts(plan) : 0;
  list.most_bytes = kMaxBenchKeyBytes - static_cast<uint32_t>(flags.key_prefix.size());
  plan.key_list = list;
  return Ok();
}

Status PlanKeys(const FlagValues& flags, Plan& plan) {
  RunnerOptions& runner = plan.runner;
  runner.keys.prefix = flags.key_prefix;
  if (!flags.keys.empty()) return PlanKeyList(flags, plan);
  if (flags.key_form == KeyFormName(KeyForm::kYcsb)) {
    runner.keys.form = KeyForm::kYcsb;
    return PlanYcsb(flags, runner.keys);
  }
  if (flags.key_form != KeyFormName(KeyForm::kNumbers)) {
    return WrongFlag("--key_form=" + flags.key_form +
                     " is not one of numbers, ycsb; for the lines of a file give --keys");
  }
  BOOST_OUTCOME_TRYV(PlanNumbers(flags));
  runner.keys.key_bytes = static_cast<uint32_t>(flags.key_bytes);
  // All operations may be inserts as far as ids are concerned.
  const bool inserting = plan.run && runner.workload.has_inserts();
  const uint64_t inserts = inserting ? runner.operations + runner.share.processes - 1 : 0;
  const KeyCodec codec(runner.keys);
  if (codec.HasKeysFor(runner.records + inserts)) return Ok();
  return WrongFlag(
      fmt::format("--key_bytes={} has keys for {} records only, which --records and the "
                  "workload's inserts exceed: take longer keys or fewer records",
                  flags.key_bytes, HumanCount(uint64_t{1} << codec.bits())));
}

// A server of the Redis protocol, or memcached, in place of a store.
Status PlanRedis(const FlagValues& flags, Plan& plan) {
  const bool is_memcached = !flags.memcached.empty();
  if (flags.redis.empty() && !flags.redis_password_file.empty()) {
    return WrongFlag("--redis_password_file is for --redis: give --redis=ADDRESS too");
  }
  if (flags.given.contains("redis_user") && flags.redis_password_file.empty()) {
    return WrongFlag("--redis_user has a password: give --redis_password_file=FILE too");
  }
  if (flags.redis.empty() && !is_memcached) {
    if (!flags.given.contains("pipeline") && !flags.given.contains("connections")) return Ok();
    return WrongFlag("--pipeline and --connections are of --redis: for a store give --coroutines");
  }
  if (is_memcached && !flags.redis.empty()) {
    return WrongFlag("--redis and --memcached: give one of them, as one server is measured");
  }
  if (plan.load && plan.runner.load_order == LoadOrder::kSorted) {
    return WrongFlag("--load_order=sorted loads by LoadSorted, which a server does not have");
  }
  const bool is_batch = plan.runner.batch > 1;
  if (is_batch && (flags.given.contains("pipeline") || flags.given.contains("connections"))) {
    return WrongFlag(
        "--batch with --redis or --memcached: each of --threads has one request of N keys in "
        "flight on a connection of its own: leave out --pipeline and --connections");
  }
  using Protocol = RedisOptions::Protocol;
  RedisOptions& server = plan.redis.emplace();
  server.protocol = is_memcached ? Protocol::kMemcached : Protocol::kRedis;
  server.address = is_memcached ? flags.memcached : flags.redis;
  if (!flags.redis_password_file.empty()) {
    Result<std::string> password = ReadPassword(flags.redis_password_file);
    if (!password) return WrongFlag("--redis_password_file: " + password.error().message);
    server.login = RedisLogin{flags.redis_user, std::move(password.value())};
  }
  server.connections = static_cast<uint32_t>(flags.connections);
  server.pipeline = static_cast<uint32_t>(flags.pipeline);
  plan.runner.coroutines = server.connections * server.pipeline;
  plan.warm_up = false;  // its cache is not here
  return Ok();
}

// A design of Sherman's evaluation in place of the product. Call once the runner's options are
// planned.
Status PlanDesign(const FlagValues& flags, Plan& plan) {
  if (flags.design == "gossamer") return Ok();
  const std::string what = "--design=" + flags.design;
  const auto wrong = [&what](const std::string& sentence) { return WrongFlag(what + sentence); };
  plan.research = sherman::FindDesign(flags.design);
  if (!plan.research) {
    return wrong(
        " is not one of naive, combined, on_chip, hierarchical, sherman (Sherman's evaluation), "
        "gossamer");
  }
  const RunnerOptions& runner = plan.runner;
  if (flags.local.empty()) return wrong(" is a store in this process: give --local");
  const bool has_numbers = flags.keys.empty() && runner.keys.form == KeyForm::kNumbers;
  if (!has_numbers || runner.keys.key_bytes != sherman::kKeyBytes ||
      runner.value_bytes != sherman::kValueBytes) {
    return wrong(
        fmt::format(" has keys of {} bytes and values of {} bytes only: leave out --key_bytes, "
                    "--key_form, --key_prefix, --keys and --value_bytes",
                    sherman::kKeyBytes, sherman::kValueBytes));
  }
  if (runner.batch > 1) return wrong(" does one operation after the other: leave out --batch");
  if (plan.load && runner.load_order == LoadOrder::kSorted) {
    return wrong(" has no LoadSorted: choose another --load_order than sorted");
  }
  return Ok();
}

bool Writes(const Plan& plan) {
  if (plan.load) return true;
  for (const BenchOperation kind :
       {BenchOperation::kUpdate, BenchOperation::kInsert, BenchOperation::kReadModifyWrite}) {
    if (plan.run && plan.runner.workload.percent[static_cast<size_t>(kind)] != 0) return true;
  }
  return false;
}

}  // namespace

uint64_t MemoryFor(uint64_t records, uint32_t key_bytes, uint32_t value_bytes) {
  const StoreParameters defaults;
  const LeafGeometry geometry(defaults.node_bytes);
  const bool is_block = value_bytes > kMaxInlineValueBytes;
  // Of longer keys, a part is in a block, or behind the prefix that a leaf stores once.
  const uint64_t unit_room = geometry.unit_bytes() - kGroupHeaderBytes;
  const uint64_t stored_bytes = std::min<uint64_t>(key_bytes, unit_room / 3);
  const uint64_t entry_bytes = stored_bytes + (is_block ? sizeof(BlockRef) : value_bytes);
  const uint64_t unit_entries = (unit_room - stored_bytes) / entry_bytes;
  // Random inserts fill leaves to about two thirds. Assume half, plus a tenth for everything else.
  const uint64_t leaf_entries = std::max<uint64_t>(unit_entries * geometry.units() / 2, 1);
  const uint64_t nodes = records / leaf_entries * defaults.node_bytes;
  // As much again for blocks that wait before they are reused, and for extents that are not full.
  uint64_t blocks = is_block ? records * BlockBytes(value_bytes) * 2 : 0;
  if (stored_bytes < key_bytes) blocks += records * BlockBytes(key_bytes);
  constexpr uint64_t kAtLeast = uint64_t{128} << 20;
  constexpr uint64_t kPageBytes = uint64_t{2} << 20;  // memory servers use large pages
  return (kAtLeast + nodes + nodes / 10 + blocks + kPageBytes - 1) / kPageBytes * kPageBytes;
}

Result<Plan> MakePlan(const FlagValues& flags) {
  Plan plan;
  BOOST_OUTCOME_TRYV(CheckNumbers(flags));
  BOOST_OUTCOME_TRYV(PlanPhases(flags, plan));
  BOOST_OUTCOME_TRYV(PlanProcesses(flags, plan.runner));
  BOOST_OUTCOME_TRYV(PlanWorkload(flags, plan.runner));
  RunnerOptions& runner = plan.runner;
  runner.theta = flags.theta;
  runner.records = flags.records;
  runner.operations = flags.operations;
  runner.threads = static_cast<uint32_t>(flags.threads);
  runner.coroutines = static_cast<uint32_t>(flags.coroutines);
  BOOST_OUTCOME_TRYV(PlanSessions(flags, runner));
  runner.batch = static_cast<uint32_t>(flags.batch);
  runner.value_bytes = static_cast<uint32_t>(flags.value_bytes);
  runner.seed = flags.seed;
  runner.progress_ms = static_cast<uint32_t>(flags.progress_ms);
  runner.max_error_seconds = static_cast<uint32_t>(flags.max_error_seconds);
  BOOST_OUTCOME_TRYV(PlanLoadOrder(flags, plan.load, runner));
  if (plan.run && runner.workload.has_inserts() && runner.operations > kMaxInserts) {
    return WrongFlag(
        fmt::format("--operations={} is too many for a workload that inserts: give at most {}",
                    runner.operations, HumanCount(kMaxInserts)));
  }
  BOOST_OUTCOME_TRYV(PlanKeys(flags, plan));
  BOOST_OUTCOME_TRYV(PlanRedis(flags, plan));
  BOOST_OUTCOME_TRYV(PlanDesign(flags, plan));
  BOOST_OUTCOME_TRY(cache_bytes, ParseSizeFlag("cache_bytes", flags.cache_bytes));
  plan.may_meet_others_keys = flags.given.contains("store") || flags.given.contains("bootstrap") ||
                              !flags.local.empty() || plan.redis;
  if (flags.local.empty()) {
    plan.open = {.bootstrap = flags.bootstrap,
                 .store = flags.store,
                 .fabric = flags.fabric.fabric,
                 .rdma = flags.fabric.rdma,
                 .cache_bytes = cache_bytes,
                 .reconnect_ms = flags.reconnect_ms,
                 .connection_timeout_ms = flags.fabric.connection_timeout_ms,
                 .sessions = static_cast<uint32_t>(flags.threads * flags.sessions)};
    return plan;
  }
  plan.local.emplace();
  plan.local->cache_bytes = cache_bytes;
  plan.local->touch_memory = flags.touch;
  if (flags.local != "auto") {
    BOOST_OUTCOME_TRY(memory_bytes, ParseSizeFlag("local", flags.local));
    if (memory_bytes < kLeastMemoryBytes || memory_bytes > kMostMemoryBytes) {
      return WrongFlag("--local=" + flags.local + ": give " + HumanCount(kLeastMemoryBytes >> 10) +
                       "KiB at least, and " + HumanCount(kMostMemoryBytes >> 40) + "TiB at most");
    }
    plan.local->memory_bytes = memory_bytes;
  }
  if (!plan.key_list) FitLocal(plan, /*sized=*/flags.local != "auto", *plan.local);
  return plan;
}

Status UseKeys(const FlagValues& flags, KeyList keys, Plan& plan) {
  RunnerOptions& runner = plan.runner;
  const std::string& file = plan.key_list->path;
  const uint64_t inserts = MostInserts(plan);
  if (flags.given.contains("records") && keys.size() < flags.records) {
    return WrongFlag(fmt::format("--records={} is more than the {} of --keys={}", flags.records,
                                 HumanQuantity(keys.size(), "line"), file));
  }
  runner.records = flags.given.contains("records") ? flags.records : keys.size();
  if (keys.size() - runner.records < inserts) {
    const std::string what =
        fmt::format("--workload={} inserts up to {} of the {} of --keys={}", runner.workload.name,
                    HumanCount(inserts), HumanQuantity(keys.size(), "line"), file);
    if (keys.size() <= inserts) {
      return WrongFlag(what + ": give fewer --operations or more lines");
    }
    return WrongFlag(
        fmt::format("{}: load no more than the others, by --records={}, in every phase", what,
                    keys.size() - inserts));
  }
  keys.Shuffle(runner.records);
  runner.keys.form = KeyForm::kLines;
  runner.keys.list = std::make_shared<const KeyList>(std::move(keys));
  if (plan.local) FitLocal(plan, /*sized=*/flags.local != "auto", *plan.local);
  return Ok();
}

Status CheckMayWrite(Store& store, const Plan& plan) {
  if (plan.may_meet_others_keys || !Writes(plan)) return Ok();
  BOOST_OUTCOME_TRY(session, store.NewSession());
  ScanOptions one_key;
  one_key.limit = 1;
  const std::unique_ptr<ScanCursor> first = session->Scan(one_key);
  if (!first->Next()) return first->status();
  return MakeError(
      Code::kInvalidArgument,
      "the store '" + plan.open.store +
          "' has keys, and this would write to it: if that is meant, say so by --store=" +
          plan.open.store + "; --local measures a store of its own instead");
}

Status CheckKeysFit(const Store& store, const Plan& plan) {
  const uint32_t longest = KeyCodec(plan.runner.keys).max_key_bytes();
  const uint32_t most = store.parameters().max_key_bytes;
  if (longest <= most) return Ok();
  return MakeError(
      Code::kInvalidArgument,
      fmt::format("the store '{}' takes keys of at most {} bytes, and these have up to {}: "
                  "take shorter keys, or a store of gossamer-memory --max_key_bytes={}",
                  plan.open.store, most, longest, longest));
}

}  // namespace gossamer::bench
