// The trees of the lab.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"
#include "compute/research/lab/any_tree.h"
#include "compute/research/lab/measure.h"
#include "compute/research/lab/steps.h"

namespace gossamer::lab {

struct TreeEntry {
  std::string_view name;
  std::string_view what;  // for --list
  uint32_t fanout;        // children of an inner node, and entries of a leaf; 0: not to be chosen
  bool many_threads;      // whether threads may share the tree
  bool parallel;          // whether it has workers of its own
  bool partitioned;       // whether it is made of trees, as many as are asked for
  std::span<const std::string_view> prefetches;  // names of its ways to fetch what a batch needs
  // measure.h and check.h explain these.
  Status (*measure)(std::span<const RunOptions> runs,
                    const std::function<void(const Measurement&)>& take);
  TreeMaker make;  // for the other checks
  Status (*check_mix)(const RunOptions& options);
  // Null unless operations take hints. `prefetch` is a place in `prefetches`.
  Status (*check_hints)(uint32_t threads, uint64_t seed, size_t prefetch);
};

// Whether a run may have more than one thread.
inline bool TakesThreads(const TreeEntry& tree) { return tree.many_threads || tree.parallel; }

// Each tree with each fanout, in the order of rows.
std::span<const TreeEntry> Trees();

// "std_map", "blink, fanout 64"
std::string FullName(const TreeEntry& tree);

inline constexpr std::array<uint32_t, 4> kCheckedThreads = {1, 2, 3, 4};

// All checks with each of these `numbers` of threads or workers (only the first, if threads may not
// share the tree), all mixes and distributions, one by one and in batches.
// Returns: how many runs were compared. Errors: of check.h, with the run's settings.
Result<uint64_t> CheckTree(const TreeEntry& tree, uint64_t seed,
                           std::span<const uint32_t> numbers = kCheckedThreads);

// Whether a mix reads or scans, so that the distribution of keys matters. Others run as uniform.
inline bool DependsOnDistribution(const Mix& mix) { return mix.Loaded(1) != 0; }

}  // namespace gossamer::lab
