#include <fmt/core.h>

#include <string>

#include "compute/research/lab/catalogue.h"
#include "compute/research/lab/check.h"

namespace gossamer::lab {
namespace {

constexpr uint64_t kRecords = 600;
constexpr uint64_t kOperations = 1'500;
constexpr uint32_t kPartitions = 3;

std::string Describe(const RunOptions& options) {
  return fmt::format("{}, {}, threads {}, batch {}, prefetch {}", options.mix.name,
                     bench::DistributionName(options.distribution), options.threads, options.batch,
                     options.prefetch.empty() ? "off" : options.prefetch);
}

// Counts a check that passed; names the run of one that failed.
Status Count(const TreeEntry& tree, const std::string& run, Status result, uint64_t& checks) {
  if (result) {
    ++checks;
    return Ok();
  }
  return MakeError(result.error().code,
                   fmt::format("{} ({}): {}", FullName(tree), run, result.error().message));
}

Status CheckMixes(const TreeEntry& tree, uint32_t threads, uint64_t seed, uint64_t& checks) {
  for (const Mix& mix : Mixes()) {
    for (const Distribution distribution : {Distribution::kUniform, Distribution::kZipfian}) {
      if (distribution != Distribution::kUniform && !DependsOnDistribution(mix)) continue;
      for (const uint32_t batch : {1u, tree.parallel ? 200u : 16u}) {
        const RunOptions options{.mix = mix,
                                 .distribution = distribution,
                                 .threads = threads,
                                 .batch = batch,
                                 .partitions = kPartitions,
                                 .records = kRecords,
                                 .operations = kOperations,
                                 .seed = seed};
        BOOST_OUTCOME_TRYV(Count(tree, Describe(options), tree.check_mix(options), checks));
      }
    }
  }
  return Ok();
}

Status CheckOneCaller(const TreeEntry& tree, uint32_t workers, uint64_t seed, uint64_t& checks) {
  return Count(tree, fmt::format("alone, workers {}, seed {}", workers, seed),
               CheckAlone(tree.make, {.workers = workers, .partitions = kPartitions}, seed),
               checks);
}

// Each way to prefetch: on contended keys, and in one mix.
Status CheckPrefetches(const TreeEntry& tree, uint32_t threads, uint64_t seed, uint64_t& checks) {
  for (size_t i = 0; i < tree.prefetches.size(); ++i) {
    if (tree.check_hints != nullptr) {
      BOOST_OUTCOME_TRYV(Count(
          tree, fmt::format("hints of {}, threads {}, seed {}", tree.prefetches[i], threads, seed),
          tree.check_hints(threads, seed, i), checks));
    }
    const RunOptions options{.mix = Mixes()[i % Mixes().size()],
                             .threads = threads,
                             .batch = 16,
                             .prefetch = tree.prefetches[i],
                             .steps_per_call = 50,
                             .records = kRecords,
                             .operations = kOperations,
                             .seed = seed};
    BOOST_OUTCOME_TRYV(Count(tree, Describe(options), tree.check_mix(options), checks));
  }
  return Ok();
}

}  // namespace

Result<uint64_t> CheckTree(const TreeEntry& tree, uint64_t seed,
                           std::span<const uint32_t> numbers) {
  uint64_t checks = 0;
  if (!tree.parallel) {
    BOOST_OUTCOME_TRYV(CheckOneCaller(tree, 1, seed, checks));
  }
  for (const uint32_t threads : numbers.first(TakesThreads(tree) ? numbers.size() : 1)) {
    if (tree.parallel) {
      BOOST_OUTCOME_TRYV(CheckOneCaller(tree, threads, seed, checks));
      BOOST_OUTCOME_TRYV(Count(
          tree, fmt::format("batches, workers {}, seed {}", threads, seed),
          CheckBatches(tree.make, {.workers = threads, .partitions = kPartitions}, seed), checks));
    } else {
      BOOST_OUTCOME_TRYV(Count(tree, fmt::format("contended, threads {}, seed {}", threads, seed),
                               CheckContended(tree.make, threads, seed), checks));
      if (threads >= 2) {
        BOOST_OUTCOME_TRYV(Count(tree,
                                 fmt::format("descending, threads {}, seed {}", threads, seed),
                                 CheckDescending(tree.make, threads, seed), checks));
      }
    }
    BOOST_OUTCOME_TRYV(CheckMixes(tree, threads, seed, checks));
    BOOST_OUTCOME_TRYV(CheckPrefetches(tree, threads, seed, checks));
  }
  return checks;
}

}  // namespace gossamer::lab
