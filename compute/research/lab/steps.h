// What the threads of a run do, drawn before the run by the generators of gossamer-bench.
//
// A drawn step costs the measured loop one sequential read, where a draw would cost up to a `pow`
// and an access to what threads share. Reads and scans choose among the records that are loaded
// before the run, so that each must find its key. Inserts have new keys, in random order.
//
// Thread-safety: immutable.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compute/bench/keys.h"
#include "compute/bench/workload.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab {

using bench::BenchOperation;
using bench::Distribution;

struct Mix {
  std::string_view name;
  std::array<uint32_t, bench::kBenchOperations> percent;  // indexed by BenchOperation; sum 100

  bool Has(BenchOperation operation) const { return percent[static_cast<size_t>(operation)] != 0; }
  // The records that are loaded for a run with `records`: none if the mix only inserts.
  uint64_t Loaded(uint64_t records) const;
};

// insert_only, read_insert, read_only, scan_insert.
std::span<const Mix> Mixes();

struct RunOptions {
  Mix mix;
  Distribution distribution = Distribution::kUniform;  // of the keys that are read or scanned from
  double theta = 0.99;                                 // skew of kZipfian
  uint32_t threads = 1;
  uint32_t batch = 1;              // steps that the tree works on at a time
  std::string_view prefetch = {};  // how a batch fetches its paths; empty: it does not
  uint32_t steps_per_call = 0;     // that a BatchingTree gets at a time; 0: `batch`
  uint32_t partitions = 0;         // of a tree that is made of trees; 0 for others
  uint64_t records = 0;            // loaded before the run, unless the mix only inserts
  uint64_t operations = 0;         // of all threads together
  uint64_t seed = 0;
};

// Whether two runs of one tree can be measured on the same loaded tree: they do the same operations
// and change nothing. How they batch and prefetch may differ.
bool SharesTree(const RunOptions& a, const RunOptions& b);

inline Key KeyOfRecord(uint64_t id) { return bench::MixBits(id, 64); }
// One instruction, so that the check of a value costs the measured loop next to nothing.
inline Value ValueOfKey(Key key) { return ~key; }

inline constexpr uint32_t kMaxScanLength = 95;  // mean 48, as in Spiderman's workload D

struct Step {
  Key key;
  uint32_t scan_length;
  BenchOperation kind;  // kRead, kInsert or kScan
};
static_assert(sizeof(Step) == 16);

struct ThreadSteps {
  std::vector<Step> warm_up;  // a tenth of the measured ones, of the same mix
  std::vector<Step> measured;
};

// The steps of each thread: the same for the same options.
std::vector<ThreadSteps> DrawSteps(const RunOptions& options);

}  // namespace gossamer::lab
