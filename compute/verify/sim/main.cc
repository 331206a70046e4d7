// gossamer-sim: the store in a simulated network that does its worst, and checks of every answer.

#include <fmt/core.h>
#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/mutants.h"
#include "common/program/flags_main.h"
#include "common/program/output_file.h"
#include "common/program/stop.h"
#include "common/text/human.h"
#include "common/text/progress.h"
#include "compute/bench/provenance.h"
#include "compute/verify/sim/measure.h"
#include "compute/verify/sim/measure_report.h"
#include "compute/verify/sim/plan.h"
#include "compute/verify/sim/profiles.h"
#include "compute/verify/sim/run.h"

DEFINE_uint64(seed, 1, "the first run's seed: everything follows from it");
DEFINE_uint64(seeds, 1, "runs, each with the next seed");
DEFINE_uint32(clients, 8, "compute servers");
DEFINE_uint32(servers, 2, "memory servers");
DEFINE_uint32(keys, 64, "keys that all clients read and write; a profile may take fewer");
DEFINE_uint32(operations, 500, "operations of all clients together, in each run");
DEFINE_string(
    faults, "all",
    "none, all, or some of tear, delay, reorder, write_back, break, partition, cut, kill, pause, "
    "exhaust, reopen, restart, stall, calls, join, record, return");
DEFINE_string(profile, "any",
              "what the runs are about; any: drawn from the seed; list: tell what there is");
DEFINE_uint32(failures, 1, "runs that fail before the program ends");
DEFINE_bool(trace, false, "tell everything that happens");
DEFINE_string(regressions, "",
              "a file of lines of flags, each of a run that failed once: run them");
DEFINE_string(
    measure, "",
    "measure instead, without faults: techniques, large, ranks, one_by_one, release, threads, "
    "coroutines, theta or all");
DEFINE_uint32(threads, 16, "--measure: threads of each compute server");
DEFINE_uint32(coroutines, 1, "--measure: operations under way at a time on each thread");
DEFINE_uint64(records, 1'000'000, "--measure: records of 8 + 8 bytes");
DEFINE_double(theta, 0.99, "--measure: skew of the zipfian distribution");
DEFINE_uint64(
    ranks, 10'000'000'000,
    "--measure: that the zipfian distribution draws from, as YCSB's, and hashes onto the records");
DEFINE_uint32(update_percent, 50, "--measure: updates among the operations; the rest are reads");
DEFINE_uint32(milliseconds, 20, "--measure: of virtual time");
DEFINE_string(json, "", "--measure: a file for the figures, '-' for stdout");
#ifdef GOSSAMER_MUTANTS
DEFINE_string(mutant, "none", "rule of the protocol that is broken");
#endif

namespace gossamer::simulator {
namespace {

constexpr ProgramInfo kProgram{
    "gossamer-sim",
    "Usage: gossamer-sim [flags]\n"
    "       gossamer-sim --measure=techniques [flags]\n"
    "\n"
    "Runs a store of several memory servers and many clients in one simulated network, in virtual\n"
    "time, with the faults that a real network may have and a few more; checks that all answers\n"
    "together are those of one map, that scans are right, and that the tree is whole. A run "
    "repeats\n"
    "from its seed: where one fails, the command that repeats it is printed.\n"
    "\n"
    "With --measure, measures in virtual time what the techniques of Sherman (SIGMOD 2022) are\n"
    "worth, and this store beside them.\n",
    __FILE__};

using Clock = std::chrono::steady_clock;

Result<RunOptions> OptionsFromFlags() {
  RunOptions options;
  options.clients = FLAGS_clients;
  options.servers = FLAGS_servers;
  options.keys = FLAGS_keys;
  options.operations = FLAGS_operations;
  options.profile = FLAGS_profile;
  BOOST_OUTCOME_TRY(faults, ParseFaults(FLAGS_faults));
  options.faults = faults;
  BOOST_OUTCOME_TRYV(Validate(options));
  if (FLAGS_failures == 0) return MakeError(Code::kInvalidArgument, "--failures: give 1 or more");
  return options;
}

bool Contains(const auto& names, std::string_view name) {
  return std::ranges::find(names, name) != std::ranges::end(names);
}

Status ChooseMutant() {
#ifdef GOSSAMER_MUTANTS
  const auto* const found = std::ranges::find(kMutantNames, FLAGS_mutant);
  if (found != kMutantNames.end()) {
    mutants::broken_rule = static_cast<Mutant>(found - kMutantNames.begin());
    return Ok();
  }
  std::string names;
  for (const std::string_view name : kMutantNames) names += " " + std::string(name);
  return MakeError(Code::kInvalidArgument,
                   "--mutant: there is no '" + FLAGS_mutant + "'; give one of" + names);
#else
  return Ok();
#endif
}

// Rejects flags of runs given to a measurement, and the reverse: they would be ignored.
Status CheckGiven(const std::vector<std::string>& given, bool measures) {
  constexpr std::array<std::string_view, 8> kOfMeasurements = {
      "threads", "coroutines",     "records",      "theta",
      "ranks",   "update_percent", "milliseconds", "json"};
  constexpr std::array<std::string_view, 8> kOfRuns = {
      "seeds", "keys", "operations", "faults", "profile", "failures", "trace", "regressions"};
  for (const std::string& name : given) {
    if (measures && Contains(kOfRuns, name)) {
      return MakeError(Code::kInvalidArgument,
                       "--" + name + " is of no use with --measure: leave it out");
    }
    if (!measures && Contains(kOfMeasurements, name)) {
      return MakeError(Code::kInvalidArgument,
                       "--" + name + " is for --measure alone: leave it out");
    }
  }
  return Ok();
}

// The runs of one set of flags.
struct Runs {
  RunOptions options;
  uint64_t seed = 1;
  uint64_t seeds = 1;
  bool trace = false;
};

Result<Runs> RunsFromFlags() {
  Runs runs;
  BOOST_OUTCOME_TRY(options, OptionsFromFlags());
  runs.options = options;
  runs.seed = FLAGS_seed;
  runs.seeds = FLAGS_seeds;
  runs.trace = FLAGS_trace;
  if (runs.seeds == 0) return MakeError(Code::kInvalidArgument, "--seeds=0: give 1 or more");
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  if (runs.seeds - 1 > kMost - runs.seed) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format("--seed={} --seeds={}: the last seed is {}", runs.seed, runs.seeds, kMost));
  }
  return runs;
}

// The command that repeats the run of this seed alone. `path`: how this program was called.
std::string CommandOf(const std::string& path, const RunOptions& options, uint64_t seed) {
  std::string command = path;
#ifdef GOSSAMER_MUTANTS
  command += " --mutant=" + FLAGS_mutant;
#endif
  return fmt::format(
      "{} --seed={} --clients={} --servers={} --keys={} --operations={} --faults={} --profile={}",
      command, seed, options.clients, options.servers, options.keys, options.operations,
      ToString(options.faults), options.profile);
}

// Counts and hash of all runs so far.
struct Total {
  std::string path;  // of this program
  RunCounts counts;
  uint64_t hash = 0;
  uint64_t failed = 0;
};

// How a report begins that the run under way has failed.
std::string failed_run;

// An assertion that fails ends the program: its run has failed, too.
void TellAbortedRun(int) {
  for (const std::string_view text :
       {std::string_view(failed_run), std::string_view("aborted\n")}) {
    static_cast<void>(!write(STDOUT_FILENO, text.data(), text.size()));
  }
}

// Reports what is wrong if the run fails.
void RunSeed(const Runs& runs, uint64_t seed, Total& total) {
  failed_run = "FAILED " + CommandOf(total.path, runs.options, seed) + ": ";
  const Plan plan = DrawPlan(runs.options, seed);
  const RunResult result = RunPlan(plan, runs.trace ? &std::cout : nullptr);
  Add(total.counts, result.counts);
  total.hash = SplitMix64::Mix(total.hash ^ result.hash);
  if (result.problems.empty()) return;
  ++total.failed;
  std::cout << failed_run << result.problems[0] << '\n';
  for (size_t i = 1; i < result.problems.size(); ++i) {
    std::cout << "  " << result.problems[i] << '\n';
  }
  std::cout << "  " << ToString(plan) << '\n' << std::flush;
}

int Conclude(const Total& total, double seconds) {
  std::cout << Summary(total.counts, seconds) << (total.failed == 0 ? "passed" : "FAILED")
            << "      " << HumanQuantity(total.counts.runs, "seed") << ", "
            << HumanCount(total.failed) << " failed; hash " << fmt::format("{:016x}", total.hash)
            << std::endl;
  return total.failed == 0 ? kExitSuccess : kExitFailure;
}

int RunSeeds(const Runs& runs, const std::string& path, const Stop& stop) {
  const Clock::time_point start = Clock::now();
  Total total;
  total.path = path;
  Progress progress(
      {.verb = "simulating", .unit = "seeds", .total = runs.seeds, .enabled = !runs.trace});
  for (uint64_t i = 0; i < runs.seeds && !stop.raised() && total.failed < FLAGS_failures; ++i) {
    RunSeed(runs, runs.seed + i, total);
    progress.Update(i + 1);
  }
  progress.Finish();
  const int status = Conclude(total, std::chrono::duration<double>(Clock::now() - start).count());
  return stop.raised() ? stop.exit_code() : status;
}

// The runs by the flags of one line and the program's own flags; or an exit status.
std::variant<Runs, int> RunsOfLine(const std::vector<std::string>& words,
                                   const std::string& where) {
  const gflags::FlagSaver saver;
  const ParsedFlags parsed = ParseFlagWords(kProgram, words, where);
  if (parsed.exit_status) return *parsed.exit_status;
  if (!parsed.arguments.empty()) {
    return UsageError(kProgram, where + "'" + parsed.arguments[0] + "' is no flag");
  }
  for (const char* name : {"measure", "regressions", "failures", "mutant"}) {
    if (Contains(parsed.given, name)) {
      return UsageError(kProgram, where + "--" + name + " is not for the line of a run");
    }
  }
  const Status given = CheckGiven(parsed.given, /*measures=*/false);
  if (!given) return UsageError(kProgram, where + given.error().message);
  const Result<Runs> runs = RunsFromFlags();
  if (!runs) return UsageError(kProgram, where + runs.error().message);
  return runs.value();
}

// Each line has flags and, behind '#', a reason. Nothing runs before all lines are parsed.
int RunRegressions(const std::string& file_path, const std::string& path) {
  std::ifstream file(file_path);
  if (!file || std::filesystem::is_directory(file_path)) {
    return UsageError(kProgram, "--regressions: cannot read " + file_path);
  }
  std::vector<Runs> all;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    const std::vector<std::string> flags{std::istream_iterator<std::string>(words), {}};
    if (flags.empty()) continue;
    const auto runs = RunsOfLine(flags, fmt::format("{} line {}: ", file_path, number));
    if (const int* status = std::get_if<int>(&runs)) return *status;
    all.push_back(std::get<Runs>(runs));
  }
  if (all.empty()) return UsageError(kProgram, "--regressions: " + file_path + " has no runs");
  const Clock::time_point start = Clock::now();
  Total total;
  total.path = path;
  for (const Runs& runs : all) {
    for (uint64_t i = 0; i < runs.seeds; ++i) RunSeed(runs, runs.seed + i, total);
  }
  return Conclude(total, std::chrono::duration<double>(Clock::now() - start).count());
}

MeasureOptions MeasureOptionsFromFlags(const std::vector<std::string>& given) {
  MeasureOptions options;
  options.seed = FLAGS_seed;
  options.memory_servers = FLAGS_servers;
  if (Contains(given, "clients")) options.compute_servers = FLAGS_clients;
  options.threads = FLAGS_threads;
  options.coroutines = FLAGS_coroutines;
  options.records = FLAGS_records;
  options.theta = FLAGS_theta;
  options.ranks = FLAGS_ranks;
  options.update_percent = FLAGS_update_percent;
  options.milliseconds = FLAGS_milliseconds;
  return options;
}

// If stopped, reports what was measured so far.
int RunMeasurements(const std::vector<PlannedMeasurement>& plan, const Stop& stop) {
  std::vector<Measurement> measurements;
  Progress progress({.verb = "measuring", .unit = "designs", .total = plan.size()});
  for (size_t i = 0; i < plan.size() && !stop.raised(); ++i) {
    Result<Measurement> measured = Measure(plan[i].options, plan[i].design);
    if (!measured) return Failure(kProgram, measured.error().ToString());
    measurements.push_back(std::move(measured.value()));
    progress.Update(i + 1);
  }
  progress.Finish();
  const int written = bench::WriteReport(kProgram, FLAGS_json, ReportText(measurements),
                                         ReportJson(plan, measurements));
  return stop.raised() && written == kExitSuccess ? stop.exit_code() : written;
}

// Rejects a flag whose value the measurement varies or fixes.
Status CheckVaried(const std::vector<std::string>& given) {
  constexpr std::array<std::array<std::string_view, 2>, 6> kOwn = {{{"large", "clients"},
                                                                    {"large", "threads"},
                                                                    {"ranks", "ranks"},
                                                                    {"threads", "threads"},
                                                                    {"coroutines", "coroutines"},
                                                                    {"theta", "theta"}}};
  for (const auto& [part, name] : kOwn) {
    if (FLAGS_measure == part && Contains(given, name)) {
      return MakeError(Code::kInvalidArgument, "--measure=" + FLAGS_measure + " has its own --" +
                                                   std::string(name) + ": leave it out");
    }
  }
  return Ok();
}

int MeasureByFlags(const std::vector<std::string>& given) {
  const Status varied = CheckVaried(given);
  if (!varied) return UsageError(kProgram, varied.error().message);
  const MeasureOptions options = MeasureOptionsFromFlags(given);
  const Status valid = Validate(options);
  if (!valid) return UsageError(kProgram, valid.error().message);
  const Result<std::vector<PlannedMeasurement>> plan = PlanMeasurements(FLAGS_measure, options);
  if (!plan) return UsageError(kProgram, plan.error().message);
  if (FLAGS_json != "-" && !FLAGS_json.empty()) {
    const Status writable = CheckWritable(FLAGS_json);
    if (!writable) return Failure(kProgram, "--json: " + writable.error().message);
  }
  Stop stop;
  const StopOnSignals stop_on_signals(stop);
  return RunMeasurements(plan.value(), stop);
}

int Main(int argc, char** argv) {
  // In a simulation, warnings of servers and clients are routine.
  gflags::SetCommandLineOptionWithMode("minloglevel", "2", gflags::SET_FLAGS_DEFAULT);
  const ParsedFlags parsed = ParseFlags(kProgram, argc, argv);
  if (parsed.exit_status) return *parsed.exit_status;
  if (!parsed.arguments.empty()) {
    return UsageError(kProgram, "takes flags only; '" + parsed.arguments[0] + "' is none");
  }
  if (FLAGS_profile == "list") {
    for (const Profile& profile : Profiles()) {
      std::cout << profile.name << std::string(24 - profile.name.size(), ' ') << profile.what
                << '\n';
    }
    return kExitSuccess;
  }
  const Status chosen = ChooseMutant();
  if (!chosen) return UsageError(kProgram, chosen.error().message);
  const bool measures = !FLAGS_measure.empty();
  const Status given = CheckGiven(parsed.given, measures);
  if (!given) return UsageError(kProgram, given.error().message);
  if (measures) return MeasureByFlags(parsed.given);
  std::signal(SIGABRT, TellAbortedRun);
  if (!FLAGS_regressions.empty()) return RunRegressions(FLAGS_regressions, argv[0]);
  const Result<Runs> runs = RunsFromFlags();
  if (!runs) return UsageError(kProgram, runs.error().message);
  Stop stop;
  const StopOnSignals stop_on_signals(stop);
  return RunSeeds(runs.value(), argv[0], stop);
}

}  // namespace
}  // namespace gossamer::simulator

int main(int argc, char** argv) {
  return gossamer::RunProgram(gossamer::simulator::kProgram, argc, argv, gossamer::simulator::Main);
}
