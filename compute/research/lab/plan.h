// What a call of gossamer-lab asks for: its flags, checked, and the runs that follow from them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "compute/research/lab/catalogue.h"
#include "compute/research/lab/steps.h"

namespace gossamer::lab {

struct FlagValues {
  std::string trees = {};  // lists are separated by commas; an empty one means all
  std::string fanout = {};
  std::string workload = {};
  std::string distribution = {};
  std::string threads = "1";
  std::string batch = "1";
  std::string prefetch = "off";
  uint32_t steps_per_call = 0;
  std::string partitions = "8";
  uint64_t records = 0;
  uint64_t operations = 0;  // 0: as many as records
  double theta = 0.99;
  uint64_t seed = 0;
};

struct PlannedRun {
  const TreeEntry* tree;
  RunOptions options;
};

// The trees that --trees and --fanout choose. A tree whose fanout cannot be chosen stays.
// Errors: InvalidArgument, for --trees and --fanout.
Result<std::vector<const TreeEntry*>> ChooseTrees(const FlagValues& flags);

// The options of the first run, and of those right behind it that can be measured on its tree.
// Requires: `runs` is not empty.
std::vector<RunOptions> SharingRuns(std::span<const PlannedRun> runs);

// All combinations, the tree varying fastest, so that trees that are compared run one after
// another. Left out:
//   - partitions of a tree that has none
//   - ways to prefetch that a tree does not have
//   - many threads on a tree for one thread
//   - distributions of a mix that does not read
// Errors: InvalidArgument: "--workload=x is not one of insert_only, …", or nothing is left.
Result<std::vector<PlannedRun>> MakeRuns(const FlagValues& flags);

}  // namespace gossamer::lab
