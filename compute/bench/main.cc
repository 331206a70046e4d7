// gossamer-bench: measures a store with the YCSB workloads.

#include <gflags/gflags.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/bootstrap/bootstrap.h"
#include "common/program/flags_main.h"
#include "common/program/output_file.h"
#include "common/program/stop.h"
#include "common/text/human.h"
#include "compute/bench/barrier.h"
#include "compute/bench/plan.h"
#include "compute/bench/process_result.h"
#include "compute/bench/report.h"
#include "compute/research/sherman/store.h"

DEFINE_string(workload, "c", "what to do: a, b, c, d, e or f, the core workloads of YCSB, or u");
DEFINE_string(phase, "both", "load (put the records), run (the workload on them) or both");
DEFINE_uint64(records, 1'000'000,
              "records to load, or that were loaded; with --keys and without this: all its lines");
DEFINE_uint64(operations, 1'000'000,
              "operations of the run phase; with --barrier, of all processes together");
DEFINE_uint64(threads, 1, "client threads, each with --sessions of its own");
DEFINE_uint64(sessions, 1,
              "sessions of each thread, which share its coroutines: with few memory servers, more "
              "queue pairs, as one has 16 READs in flight at most");
DEFINE_uint64(coroutines, 64, "operations in flight on each thread (with --batch=1)");
DEFINE_uint64(batch, 1, "more than 1: operations handed to MultiGet and MultiPut at a time");
DEFINE_string(load_order, "random",
              "how records are loaded: random (order of keys), runs (--batch neighbours at a time, "
              "the runs in random order; needs --batch), sorted (by key, into full leaves), "
              "ascending or descending (by key, by puts) or file (as the lines of --keys are)");
DEFINE_uint64(progress_ms, 0, "milliseconds between the points of `progress` in the JSON; 0: none");
DEFINE_uint64(
    max_error_seconds, 0,
    "give up when a thread has seen nothing but failures for so long, to measure how a "
    "store recovers: failures do not count as --operations then; 0: after 1,000 failures in a row");
DEFINE_string(distribution, "",
              "which records: uniform, zipfian or latest; empty: what the workload says");
DEFINE_double(theta, 0.99, "skew of zipfian and latest, between 0 and 1");
DEFINE_uint64(key_bytes, 8,
              "length of keys, 4 to what a store takes at most; above 8 they read user0000…");
DEFINE_string(key_prefix, "",
              "every key starts with this; numbers, all digits then, have the rest of --key_bytes");
DEFINE_string(key_form, "numbers",
              "numbers, or ycsb: usertable/user6284781860667377211, as go-ycsb in Redis");
DEFINE_string(keys, "",
              "file whose lines are the keys; a workload that inserts needs lines that --records "
              "leaves");
DEFINE_uint64(value_bytes, 8, "length of values, 0 to 1048576");
DEFINE_uint64(seed, 42, "of operations and values: the same seed, the same run");
DEFINE_string(json, "", "file to write the figures to as JSON; - is stdout");
DEFINE_bool(warm_up, true, "scan the store once before the run phase, so that the cache is warm");
DEFINE_string(barrier, "",
              "name by which --processes of one benchmark find each other at --bootstrap, on any "
              "machines; start each with the same flags: they share --records and --operations, "
              "and that of rank 0 reports all");
DEFINE_uint64(processes, 1, "with --barrier: how many processes run the benchmark, 1 to 128");
DEFINE_string(local, "",
              "benchmark a store in this process instead of a running one: --local chooses its "
              "size, --local=4GiB sets it");
DEFINE_string(design, "gossamer",
              "--local: what is measured, gossamer or a design of Sherman's evaluation (SIGMOD "
              "2022): naive, combined, on_chip, hierarchical or sherman");
DEFINE_string(redis, "",
              "benchmark a server of the Redis protocol instead of a store: unix:PATH or "
              "ADDRESS:PORT");
DEFINE_string(redis_user, "default", "--redis: who logs in, with --redis_password_file");
DEFINE_string(redis_password_file, "",
              "--redis: file whose first line is the password (default: no login)");
DEFINE_string(memcached, "", "likewise, memcached: unix:PATH or ADDRESS:PORT");
DEFINE_uint64(pipeline, 64,
              "--redis, --memcached: requests in flight on each connection (with --batch=1)");
DEFINE_uint64(connections, 1, "--redis, --memcached: connections of each thread (with --batch=1)");
DEFINE_string(bootstrap, "", "memcached://HOST:PORT or dir:PATH; empty: this user's directory");
DEFINE_string(store, "default", "name of the store");
DEFINE_uint32(reconnect_ms, 10000,
              "how long operations wait for a memory server that is to come back with its memory "
              "(gossamer-memory --region), before they end as NodeUnreachable");
DEFINE_string(cache_bytes, "256MiB", "bound of the cache of internal nodes");
DEFINE_bool(
    touch, true,
    "--local: have all its memory from the machine before the first phase, as a memory server "
    "does; otherwise the load waits for each page");

namespace gossamer::bench {
namespace {

constexpr ProgramInfo kProgram{
    "gossamer-bench",
    "gossamer-bench --local --workload=c [flags]\n"
    "gossamer-bench --bootstrap=… --workload=a --phase=run [flags]\n"
    "gossamer-bench --redis=ADDRESS --workload=b [flags]\n"
    "gossamer-bench --barrier=NAME --processes=3 --bootstrap=… [flags]\n"
    "\n"
    "Loads records into a store and runs a workload of YCSB on them:\n"
    "  a  half reads, half updates       d  reads of the latest, 5 % inserts\n"
    "  b  95 % reads, 5 % updates        e  scans of 1 to 100, 5 % inserts\n"
    "  c  reads only                     f  half reads, half "
    "read-modify-writes\n"
    "  u  updates only; not one of YCSB's\n"
    "Prints throughput, latency and what each operation cost on the wire. A store that has keys\n"
    "is written to only if --store or --bootstrap names it; a server of --redis or --memcached "
    "always.\n",
    __FILE__};

FlagValues ReadFlags(const std::vector<std::string>& given, FabricFlags fabric) {
  return {.given = {given.begin(), given.end()},
          .workload = FLAGS_workload,
          .phase = FLAGS_phase,
          .records = FLAGS_records,
          .operations = FLAGS_operations,
          .threads = FLAGS_threads,
          .sessions = FLAGS_sessions,
          .coroutines = FLAGS_coroutines,
          .batch = FLAGS_batch,
          .distribution = FLAGS_distribution,
          .theta = FLAGS_theta,
          .key_bytes = FLAGS_key_bytes,
          .key_prefix = FLAGS_key_prefix,
          .key_form = FLAGS_key_form,
          .keys = FLAGS_keys,
          .value_bytes = FLAGS_value_bytes,
          .seed = FLAGS_seed,
          .load_order = FLAGS_load_order,
          .progress_ms = FLAGS_progress_ms,
          .max_error_seconds = FLAGS_max_error_seconds,
          .warm_up = FLAGS_warm_up,
          .processes = FLAGS_processes,
          .barrier = FLAGS_barrier,
          .local = FLAGS_local,
          .design = FLAGS_design,
          .redis = FLAGS_redis,
          .redis_user = FLAGS_redis_user,
          .redis_password_file = FLAGS_redis_password_file,
          .memcached = FLAGS_memcached,
          .pipeline = FLAGS_pipeline,
          .connections = FLAGS_connections,
          .bootstrap = FLAGS_bootstrap,
          .store = FLAGS_store,
          .fabric = std::move(fabric),
          .cache_bytes = FLAGS_cache_bytes,
          .reconnect_ms = FLAGS_reconnect_ms,
          .touch = FLAGS_touch};
}

// Flags take no optional value: spells a bare --local out as --local=auto.
std::vector<char*> WithLocalSpelledOut(int argc, char** argv) {
  static char spelled_out[] = "--local=auto";
  std::vector<char*> words(argv, argv + argc);
  for (char*& word : words) {
    if (word == std::string_view("--")) break;
    if (word == std::string_view("--local") || word == std::string_view("-local")) {
      word = spelled_out;
    }
  }
  return words;
}

// Returns why a flag makes no sense with the chosen store, or "".
std::string WhyUnwanted(const std::vector<std::string>& given, const Plan& plan) {
  for (const std::string& name : given) {
    const bool is_of_store =
        name == "bootstrap" || name == "store" || std::ranges::count(FabricFlagNames(), name) != 0;
    if (plan.redis && name == "bootstrap" && !FLAGS_barrier.empty()) continue;
    if (plan.redis && (is_of_store || name == "local" || name == "coroutines")) {
      return "--redis and --memcached measure a server: leave out --" + name;
    }
    if (plan.local && is_of_store) {
      return "--local opens a store of its own: leave out --" + name;
    }
    if (!plan.local && name == "touch") {
      return "--touch is about the memory of --local: leave it out";
    }
  }
  return {};
}

// The flags, with the values that the plan has in their place.
nlohmann::ordered_json PlanJson(const Plan& plan) {
  nlohmann::ordered_json config = ConfigJson(kProgram);
  config["records"] = plan.runner.records;
  config["key_bytes"] = KeyCodec(plan.runner.keys).max_key_bytes();
  config["key_form"] = KeyFormName(plan.runner.keys.form);
  config["distribution"] = DistributionName(plan.runner.workload.distribution);
  if (plan.local) config["local"] = plan.local->memory_bytes;
  return config;
}

// The flags that all processes of a benchmark have alike: all but those about a process's machine.
std::map<std::string, std::string> SharedSettings(const Plan& plan) {
  std::map<std::string, std::string> settings;
  const nlohmann::ordered_json config = PlanJson(plan);
  for (const auto& [name, value] : config.items()) {
    settings[name] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  for (const std::string_view name : FabricFlagNames()) {
    if (name != "fabric") settings.erase(std::string(name));
  }
  for (const char* name :
       {"barrier", "bootstrap", "cache_bytes", "json", "redis_password_file", "threads", "touch"}) {
    settings.erase(name);
  }
  return settings;
}

// The other processes of a benchmark of several.
struct Others {
  std::unique_ptr<Bootstrap> bootstrap;
  std::unique_ptr<Barrier> barrier;  // null: there are none
};

Result<Others> JoinOthers(const Plan& plan) {
  if (FLAGS_barrier.empty()) return Others();
  BOOST_OUTCOME_TRY(bootstrap, OpenBootstrap(FLAGS_bootstrap));
  BarrierOptions options;
  options.name = FLAGS_barrier;
  options.processes = plan.runner.share.processes;
  options.settings = SharedSettings(plan);
  options.should_stop = plan.runner.should_stop;
  options.say = [](const std::string& sentence) {
    std::cerr << kProgram.name << ": " << sentence << "\n";
  };
  BOOST_OUTCOME_TRY(barrier, Barrier::Join(*bootstrap, options));
  return Others{.bootstrap = std::move(bootstrap), .barrier = std::move(barrier)};
}

std::string Describe(const Plan& plan, const BenchReport& report) {
  if (report.server) return *report.server + " at " + plan.redis->address;
  if (plan.local) {
    const std::string design = plan.research ? ", design " + FLAGS_design : "";
    return "store of " + HumanBytes(plan.local->memory_bytes) + " in this process" + design;
  }
  std::string text = "store " + plan.open.store + " by " + plan.open.fabric;
  if (!plan.open.bootstrap.empty()) text += ", found by " + plan.open.bootstrap;
  return text;
}

// Opens what the plan measures. `report` is told of a server.
Result<std::unique_ptr<Store>> OpenStore(const Plan& plan, BenchReport& report) {
  if (plan.research) {
    BOOST_OUTCOME_TRY(store, sherman::ShermanStore::OpenLocal(*plan.local, *plan.research));
    return std::unique_ptr<Store>(std::move(store));
  }
  if (!plan.redis) return plan.local ? Store::OpenLocal(*plan.local) : Store::Open(plan.open);
  const auto scans = static_cast<size_t>(BenchOperation::kScan);
  const bool needs_scans = plan.run && plan.runner.workload.percent[scans] != 0;
  BOOST_OUTCOME_TRY(store, RedisStore::Open(*plan.redis, needs_scans));
  report.server = store->server();
  return std::unique_ptr<Store>(std::move(store));
}

// Calls the phase, and notes the processor time of a server meanwhile.
Result<PhaseResult> WithServer(Store& store, const BenchReport& report,
                               Result<PhaseResult> (*phase)(Store&, const RunnerOptions&)) {
  if (!report.server) return phase(store, report.options);
  auto& redis = static_cast<RedisStore&>(store);
  BOOST_OUTCOME_TRY(before, redis.ServerCpuSeconds());
  BOOST_OUTCOME_TRY(result, phase(store, report.options));
  // A server that has died during the phase has failed operations to show, and no more.
  const Result<double> after = redis.ServerCpuSeconds();
  result.server_cpu_seconds = after ? std::optional(after.value() - before) : std::nullopt;
  return result;
}

// Runs the phases in order until one is stopped, each together with the other processes. Returns an
// error that ended the run early.
Status RunPhases(Store& store, const Plan& plan, Barrier* barrier, BenchReport& report) {
  const auto meet = [barrier] { return barrier == nullptr ? Ok() : barrier->Meet(); };
  if (plan.load) {
    BOOST_OUTCOME_TRYV(meet());
    BOOST_OUTCOME_TRY(load, WithServer(store, report, LoadRecords));
    report.loaded = true;
    report.load = std::move(load);
    report.interrupted = report.load.interrupted;
    if (report.load.interrupted || report.load.gave_up) return Ok();
  }
  if (plan.warm_up) {
    BOOST_OUTCOME_TRYV(meet());
    BOOST_OUTCOME_TRY(warm_up, WarmUp(store, plan.runner));
    report.interrupted = warm_up.interrupted;
    if (report.interrupted) return Ok();
    if (warm_up.keys < plan.runner.records) {
      std::cerr << kProgram.name << ": the store has " << HumanCount(warm_up.keys)
                << " keys, fewer than --records=" << plan.runner.records
                << ": reads of the others will count as NotFound (load it with --phase=load)\n";
    }
  }
  if (plan.run) {
    BOOST_OUTCOME_TRYV(meet());
    BOOST_OUTCOME_TRY(run, WithServer(store, report, RunWorkload));
    report.ran = true;
    report.run = std::move(run);
    report.interrupted = report.run.interrupted;
  }
  return Ok();
}

// Ends the benchmark of several processes. `report` has the figures of all then in that of rank 0,
// and a remark in others. A process that has not done its part hands nothing in, and so ends the
// benchmark for all.
Status HandIn(Barrier& barrier, const Plan& plan, BenchReport& report) {
  const Share share = barrier.share();
  report.remark = "This is the process of rank " + std::to_string(share.rank) + " of " +
                  std::to_string(share.processes) + " alone.";
  if (barrier.IsBroken()) return barrier.Meet();
  if (report.interrupted || report.ran != plan.run) return Ok();
  BOOST_OUTCOME_TRY(results, barrier.HandIn(EncodePhases(report)));
  if (share.rank != 0) {
    report.remark += " That of rank 0, on " + barrier.HostOf(0) + ", reports all.";
    return Ok();
  }
  std::vector<std::string> hosts;
  for (uint32_t rank = 0; rank < share.processes; ++rank) hosts.push_back(barrier.HostOf(rank));
  BOOST_OUTCOME_TRYV(MergePhases(results, hosts, report));
  report.remark.clear();
  return Ok();
}

// Returns the exit status if the plan's keys cannot be read or used.
std::optional<int> ReadKeys(const FlagValues& flags, Plan& plan) {
  Result<KeyList> keys = KeyList::Read(*plan.key_list);
  if (!keys) return Failure(kProgram, "--keys: " + keys.error().message);
  const Status used = UseKeys(flags, std::move(keys).value(), plan);
  if (!used) return UsageError(kProgram, used.error().message);
  return std::nullopt;
}

int Main(int argc, char** argv) {
  std::vector<char*> words = WithLocalSpelledOut(argc, argv);
  const ParsedFlags parsed = ParseFlags(kProgram, argc, words.data());
  if (parsed.exit_status) return *parsed.exit_status;
  if (!parsed.arguments.empty()) {
    return UsageError(kProgram, "takes flags only; '" + parsed.arguments[0] + "' is none");
  }
  Result<FabricFlags> fabric = ReadFabricFlags();
  if (!fabric) return UsageError(kProgram, fabric.error().message);
  const FlagValues flags = ReadFlags(parsed.given, std::move(fabric).value());
  Result<Plan> planned = MakePlan(flags);
  if (!planned) return UsageError(kProgram, planned.error().message);
  Plan& plan = planned.value();
  if (const std::string why = WhyUnwanted(parsed.given, plan); !why.empty()) {
    return UsageError(kProgram, why);
  }

  if (!FLAGS_json.empty() && FLAGS_json != "-") {
    const Status writable = CheckWritable(FLAGS_json);
    if (!writable) return Failure(kProgram, "--json: " + writable.error().message);
  }
  if (plan.key_list) {
    if (const std::optional<int> failed = ReadKeys(flags, plan)) return *failed;
  }

  Stop stop;
  const StopOnSignals stop_on_signals(stop);
  plan.runner.should_stop = [&stop] { return stop.raised(); };
  const Result<Others> others = JoinOthers(plan);
  if (stop.raised()) return stop.exit_code();
  if (!others) {
    return others.error().code == Code::kInvalidArgument
               ? UsageError(kProgram, others.error().message)
               : Failure(kProgram, others.error().ToString());
  }
  Barrier* const barrier = others.value().barrier.get();
  if (barrier != nullptr) {
    plan.runner.share = barrier->share();
    plan.runner.should_stop = [&stop, barrier] { return stop.raised() || barrier->IsBroken(); };
  }
  BenchReport report;
  const Result<std::unique_ptr<Store>> store = OpenStore(plan, report);
  if (!store) {
    return plan.redis && store.error().code == Code::kInvalidArgument
               ? UsageError(kProgram, store.error().message)
               : Failure(kProgram, store.error().ToString());
  }
  Status suits = CheckKeysFit(*store.value(), plan);
  if (suits) suits = CheckMayWrite(*store.value(), plan);
  if (!suits) {
    return suits.error().code == Code::kInvalidArgument
               ? UsageError(kProgram, suits.error().message)
               : Failure(kProgram, suits.error().ToString());
  }

  report.config = PlanJson(plan);
  report.provenance = ThisProvenance(BuildCommit());
  report.options = plan.runner;
  report.store_description = Describe(plan, report);
  report.device = store.value()->Device();
  Status status = RunPhases(*store.value(), plan, barrier, report);
  if (barrier != nullptr && status) status = HandIn(*barrier, plan, report);
  const int written = WriteReport(kProgram, FLAGS_json, ToText(report), ToJson(report));
  if (stop.raised()) return stop.exit_code();
  if (!status) return Failure(kProgram, status.error().ToString());
  const bool failed = report.load.errors.total() + report.run.errors.total() > 0;
  return failed ? kExitFailure : written;
}

}  // namespace
}  // namespace gossamer::bench

int main(int argc, char** argv) {
  return gossamer::RunProgram(gossamer::bench::kProgram, argc, argv, gossamer::bench::Main);
}
