#include "compute/research/lab/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <charconv>
#include <sstream>
#include <string_view>

namespace gossamer::lab {
namespace {

constexpr uint32_t kMaxThreads = 256;
constexpr uint32_t kMaxBatch = 10'000'000;
constexpr uint32_t kMaxPartitions = 1'024;

std::vector<std::string> SplitList(const std::string& list) {
  std::vector<std::string> words;
  std::istringstream stream(list);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

template <typename T>
void AddOnce(std::vector<T>& values, const T& value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

Error NotOneOf(const std::string& flag, const std::string& word,
               const std::vector<std::string>& known) {
  return MakeError(Code::kInvalidArgument,
                   fmt::format("--{}={} is not one of {}", flag, word, fmt::join(known, ", ")));
}

// The words of a list, all of which must be in `known`; all of `known` if the list is empty.
Result<std::vector<std::string>> ParseNames(const std::string& flag, const std::string& list,
                                            const std::vector<std::string>& known) {
  std::vector<std::string> names;
  for (const std::string& word : SplitList(list)) {
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      return NotOneOf(flag, word, known);
    }
    AddOnce(names, word);
  }
  return names.empty() ? known : names;
}

Result<std::vector<uint32_t>> ParseNumbers(const std::string& flag, const std::string& list,
                                           uint32_t max) {
  std::vector<uint32_t> numbers;
  for (const std::string& word : SplitList(list)) {
    uint32_t number = 0;
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, number);
    if (error != std::errc() || stop != end || number == 0 || number > max) {
      return MakeError(Code::kInvalidArgument,
                       fmt::format("--{}={}: '{}' is not from 1 to {}", flag, list, word, max));
    }
    AddOnce(numbers, number);
  }
  if (numbers.empty()) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("--{} is empty: give numbers, as in 1,2,4", flag));
  }
  return numbers;
}

// Each name once, in the order of the catalogue.
std::vector<std::string> TreeNames() {
  std::vector<std::string> names;
  for (const TreeEntry& tree : Trees()) AddOnce(names, std::string(tree.name));
  return names;
}

std::vector<std::string> KnownFanouts() {
  std::vector<std::string> fanouts;
  for (const TreeEntry& tree : Trees()) {
    if (tree.fanout != 0) AddOnce(fanouts, std::to_string(tree.fanout));
  }
  return fanouts;
}

// "off" is the empty name, which all trees have.
Result<std::vector<std::string_view>> ParsePrefetches(const std::string& list) {
  std::vector<std::string> known = {"off"};
  for (const TreeEntry& tree : Trees()) {
    for (const std::string_view name : tree.prefetches) AddOnce(known, std::string(name));
  }
  BOOST_OUTCOME_TRY(names, ParseNames("prefetch", list, known));
  std::vector<std::string_view> prefetches;
  for (const std::string& name : names) {
    if (name == "off") prefetches.emplace_back();
    for (const TreeEntry& tree : Trees()) {
      for (const std::string_view of_tree : tree.prefetches) {
        if (of_tree == name) AddOnce(prefetches, of_tree);
      }
    }
  }
  return prefetches;
}

bool Has(const TreeEntry& tree, std::string_view prefetch) {
  return prefetch.empty() || std::find(tree.prefetches.begin(), tree.prefetches.end(), prefetch) !=
                                 tree.prefetches.end();
}

Result<std::vector<Mix>> ParseMixes(const std::string& list) {
  std::vector<std::string> known;
  for (const Mix& mix : Mixes()) known.emplace_back(mix.name);
  BOOST_OUTCOME_TRY(names, ParseNames("workload", list, known));
  std::vector<Mix> mixes;
  for (const std::string& name : names) {
    mixes.push_back(*std::find_if(Mixes().begin(), Mixes().end(),
                                  [&](const Mix& m) { return m.name == name; }));
  }
  return mixes;
}

Result<std::vector<Distribution>> ParseDistributions(const std::string& list) {
  BOOST_OUTCOME_TRY(names, ParseNames("distribution", list, {"uniform", "zipfian"}));
  std::vector<Distribution> distributions;
  for (const std::string& name : names) {
    distributions.push_back(*bench::ParseDistribution(name));
  }
  return distributions;
}

Status CheckNumbers(const FlagValues& flags) {
  constexpr uint64_t kMaxRecords = 10'000'000'000;
  if (flags.records == 0 || flags.records > kMaxRecords) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("--records={} is not from 1 to {}", flags.records, kMaxRecords));
  }
  if (flags.operations > kMaxRecords) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("--operations={} is more than {}", flags.operations, kMaxRecords));
  }
  if (!(flags.theta > 0 && flags.theta < 1)) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("--theta={} is not between 0 and 1", flags.theta));
  }
  return Ok();
}

}  // namespace

Result<std::vector<const TreeEntry*>> ChooseTrees(const FlagValues& flags) {
  BOOST_OUTCOME_TRY(names, ParseNames("trees", flags.trees, TreeNames()));
  BOOST_OUTCOME_TRY(fanouts, ParseNames("fanout", flags.fanout, KnownFanouts()));
  std::vector<const TreeEntry*> trees;
  for (const std::string& name : names) {
    for (const TreeEntry& tree : Trees()) {
      const bool fits = tree.fanout == 0 || std::find(fanouts.begin(), fanouts.end(),
                                                      std::to_string(tree.fanout)) != fanouts.end();
      if (tree.name == name && fits) trees.push_back(&tree);
    }
  }
  if (trees.empty()) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format("nothing to run: no tree of --trees={} has a fanout of --fanout={}",
                    flags.trees, flags.fanout));
  }
  return trees;
}

std::vector<RunOptions> SharingRuns(std::span<const PlannedRun> runs) {
  assert(!runs.empty());
  std::vector<RunOptions> options = {runs.front().options};
  for (const PlannedRun& run : runs.subspan(1)) {
    if (run.tree != runs.front().tree || !SharesTree(run.options, runs.front().options)) break;
    options.push_back(run.options);
  }
  return options;
}

Result<std::vector<PlannedRun>> MakeRuns(const FlagValues& flags) {
  BOOST_OUTCOME_TRYV(CheckNumbers(flags));
  BOOST_OUTCOME_TRY(trees, ChooseTrees(flags));
  BOOST_OUTCOME_TRY(mixes, ParseMixes(flags.workload));
  BOOST_OUTCOME_TRY(distributions, ParseDistributions(flags.distribution));
  BOOST_OUTCOME_TRY(threads, ParseNumbers("threads", flags.threads, kMaxThreads));
  BOOST_OUTCOME_TRY(batches, ParseNumbers("batch", flags.batch, kMaxBatch));
  BOOST_OUTCOME_TRY(prefetches, ParsePrefetches(flags.prefetch));
  BOOST_OUTCOME_TRY(partitions, ParseNumbers("partitions", flags.partitions, kMaxPartitions));

  std::vector<RunOptions> settings;
  for (const Mix& mix : mixes) {
    for (const Distribution distribution : distributions) {
      if (!DependsOnDistribution(mix) && distribution != distributions.front()) continue;
      for (const uint32_t thread_count : threads) {
        for (const uint32_t batch : batches) {
          settings.push_back(
              {.mix = mix,
               .distribution = DependsOnDistribution(mix) ? distribution : Distribution::kUniform,
               .theta = flags.theta,
               .threads = thread_count,
               .batch = batch,
               .prefetch = {},
               .steps_per_call = flags.steps_per_call,
               .records = flags.records,
               .operations = flags.operations == 0 ? flags.records : flags.operations,
               .seed = flags.seed});
        }
      }
    }
  }
  std::vector<PlannedRun> runs;
  for (const RunOptions& options : settings) {
    for (const TreeEntry* tree : trees) {
      if (options.threads > 1 && !TakesThreads(*tree)) continue;
      for (const std::string_view prefetch : prefetches) {
        if (!Has(*tree, prefetch)) continue;
        for (const uint32_t partition_count : partitions) {
          if (!tree->partitioned && partition_count != partitions.front()) continue;
          runs.push_back({tree, options});
          runs.back().options.prefetch = prefetch;
          runs.back().options.partitions = tree->partitioned ? partition_count : 0;
        }
      }
    }
  }
  if (runs.empty()) {
    return MakeError(
        Code::kInvalidArgument,
        fmt::format(
            "nothing to run: no tree of --trees={} runs with --threads={} and --prefetch={}",
            flags.trees, flags.threads, flags.prefetch));
  }
  return runs;
}

}  // namespace gossamer::lab
