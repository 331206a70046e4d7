// gossamer-lab: compares local trees, all in one process, with the same keys and operations.

#include <fmt/format.h>
#include <gflags/gflags.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "common/program/flags_main.h"
#include "common/program/output_file.h"
#include "common/text/human.h"
#include "common/text/text_table.h"
#include "compute/bench/provenance.h"
#include "compute/research/lab/catalogue.h"
#include "compute/research/lab/plan.h"
#include "compute/research/lab/report.h"
#include "compute/research/lab/separators.h"

DEFINE_bool(quick, false, "check each tree against std::map on small data; measure nothing");
DEFINE_bool(separators, false,
            "measure no tree, but the traversal of the store's cache: the separators of a store of "
            "--records, by --batch and --prefetch");
DEFINE_bool(list, false, "print the trees, and end");
DEFINE_string(trees, "", "which trees, separated by commas; empty: all (--list names them)");
DEFINE_string(fanout, "", "which fanouts, separated by commas; empty: all");
DEFINE_string(workload, "",
              "which mixes, separated by commas: insert_only, read_insert (half each), read_only, "
              "scan_insert (95 % scans); empty: all");
DEFINE_string(distribution, "", "of keys to read: uniform,zipfian; empty: both");
DEFINE_string(threads, "1", "numbers of threads, separated by commas");
DEFINE_string(batch, "1", "operations handed to a tree at a time, separated by commas");
DEFINE_string(
    prefetch, "off",
    "how a batch fetches what it needs, separated by commas (--list names the ways); off: not "
    "at all; empty: each");
DEFINE_uint32(steps_per_call, 0,
              "operations that a tree with batched lookups gets at a time; 0: a batch");
DEFINE_string(partitions, "8", "trees that a partitioned one is made of, separated by commas");
DEFINE_uint64(records, 1'000'000, "records to load before a run, unless it only inserts");
DEFINE_uint64(operations, 0, "operations of a run, of all threads; 0: as many as records");
DEFINE_double(theta, 0.99, "skew of zipfian, between 0 and 1");
DEFINE_uint64(seed, 42, "of the operations: the same seed, the same run");
DEFINE_string(json, "", "file to write the figures to as JSON; - is stdout");

namespace gossamer::lab {
namespace {

constexpr ProgramInfo kProgram{
    "gossamer-lab",
    "gossamer-lab [--trees=LIST] [--workload=LIST] [flags]\n"
    "gossamer-lab --quick [--trees=LIST]\n"
    "gossamer-lab --separators [--batch=LIST] [--prefetch=LIST]\n"
    "\n"
    "Measures local trees of 64-bit keys and values: each tree with each workload, distribution,\n"
    "number of threads and batch that the flags name. Every read is checked.\n",
    __FILE__};

FlagValues ReadFlags() {
  return {.trees = FLAGS_trees,
          .fanout = FLAGS_fanout,
          .workload = FLAGS_workload,
          .distribution = FLAGS_distribution,
          .threads = FLAGS_threads,
          .batch = FLAGS_batch,
          .prefetch = FLAGS_prefetch,
          .steps_per_call = FLAGS_steps_per_call,
          .partitions = FLAGS_partitions,
          .records = FLAGS_records,
          .operations = FLAGS_operations,
          .theta = FLAGS_theta,
          .seed = FLAGS_seed};
}

int List() {
  TextRows rows;
  for (const TreeEntry& tree : Trees()) {
    rows.push_back({std::string(tree.name),
                    tree.fanout == 0 ? "" : "fanout " + std::to_string(tree.fanout),
                    std::string(tree.what), TakesThreads(tree) ? "" : "one thread"});
  }
  std::cout << TextTable(rows, {0, 2, 3});
  std::vector<std::string_view> seen;
  for (const TreeEntry& tree : Trees()) {
    if (tree.prefetches.empty() || std::find(seen.begin(), seen.end(), tree.name) != seen.end())
      continue;
    seen.push_back(tree.name);
    std::cout << fmt::format("\n--prefetch of {}: {}\n", tree.name,
                             fmt::join(tree.prefetches, ", "));
  }
  return kExitSuccess;
}

int CheckTrees() {
  const auto trees = ChooseTrees(ReadFlags());
  if (!trees) return UsageError(kProgram, trees.error().message);
  for (const TreeEntry* tree : trees.value()) {
    const Result<uint64_t> checks = CheckTree(*tree, FLAGS_seed);
    if (!checks) return Failure(kProgram, checks.error().message);
    std::cout << FullName(*tree) << ": " << HumanQuantity(checks.value(), "run") << " as std::map"
              << std::endl;
  }
  return kExitSuccess;
}

// A flag that was given and that --separators decides, or "".
std::string UnwantedFlag(const std::vector<std::string>& given) {
  for (const std::string& name : given) {
    if (name == "trees" || name == "fanout" || name == "workload" || name == "threads") return name;
  }
  return {};
}

// The runs of --separators, as those of a tree with the same ways to prefetch.
Result<std::vector<PlannedRun>> MakeSeparatorRuns(FlagValues flags) {
  flags.trees = "gossamer";
  flags.workload = "read_only";
  flags.threads = "1";
  BOOST_OUTCOME_TRY(runs, MakeRuns(flags));
  for (PlannedRun& run : runs) run.tree = &Separators();
  return runs;
}

int Measure() {
  const Result<std::vector<PlannedRun>> runs =
      FLAGS_separators ? MakeSeparatorRuns(ReadFlags()) : MakeRuns(ReadFlags());
  if (!runs) return UsageError(kProgram, runs.error().message);
  if (!FLAGS_json.empty() && FLAGS_json != "-") {
    if (const Status writable = CheckWritable(FLAGS_json); !writable) {
      return UsageError(kProgram, fmt::format("--json: {}", writable.error().message));
    }
  }
  LabReport report{bench::ConfigJson(kProgram), bench::ThisProvenance(bench::BuildCommit()), {}};
  for (size_t first = 0; first < runs.value().size(); first = report.rows.size()) {
    const PlannedRun& planned = runs.value()[first];
    const std::vector<RunOptions> options = SharingRuns(std::span(runs.value()).subspan(first));
    const Status status = planned.tree->measure(options, [&](const Measurement& measured) {
      report.rows.push_back({runs.value()[report.rows.size()], measured});
      std::cerr << report.rows.size() << " of " << runs.value().size() << ": "
                << FullName(*planned.tree) << ", " << planned.options.mix.name << ": "
                << HumanRate(measured.operations_per_second()) << std::endl;
    });
    if (!status) {
      return Failure(kProgram, fmt::format("{}, {}: {}", FullName(*planned.tree),
                                           planned.options.mix.name, status.error().message));
    }
  }
  return bench::WriteReport(kProgram, FLAGS_json, ToText(report.rows), ToJson(report));
}

int Main(int argc, char** argv) {
  const ParsedFlags parsed = ParseFlags(kProgram, argc, argv);
  if (parsed.exit_status) return *parsed.exit_status;
  if (!parsed.arguments.empty()) {
    return UsageError(kProgram, fmt::format("takes flags only; '{}' is none", parsed.arguments[0]));
  }
  if (FLAGS_list) return List();
  const std::string unwanted = FLAGS_separators ? UnwantedFlag(parsed.given) : "";
  if (!unwanted.empty()) {
    return UsageError(kProgram, fmt::format("--separators reads by one thread, in no tree of the "
                                            "list: leave out --{}",
                                            unwanted));
  }
  return FLAGS_quick ? CheckTrees() : Measure();
}

}  // namespace
}  // namespace gossamer::lab

int main(int argc, char** argv) {
  return gossamer::RunProgram(gossamer::lab::kProgram, argc, argv, gossamer::lab::Main);
}
