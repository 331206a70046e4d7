// What a benchmark prints: a summary for people, and the JSON that programs read.
//
// docs/bench.md says what each number means. The JSON is an outside contract (schema 1): keys may be
// added, none is taken away or changes its meaning. Both phases are always there, with zeros for one
// that did not run.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/histogram.h"
#include "compute/bench/provenance.h"
#include "compute/bench/runner.h"

namespace gossamer::bench {

struct BenchReport {
  nlohmann::ordered_json config;  // every flag in force
  Provenance provenance;
  RunnerOptions options;
  std::string store_description;  // "in-process store of 1.00 GiB"
  bool loaded = false;
  bool ran = false;
  bool interrupted = false;
  PhaseResult load;
  PhaseResult run;
};

// Count, mean, percentiles and maximum of latencies in nanoseconds; all but the count in microseconds.
nlohmann::ordered_json LatencyJson(const Histogram& histogram);

nlohmann::ordered_json ToJson(const BenchReport& report);

// Several lines, each ended.
std::string ToText(const BenchReport& report);

}  // namespace gossamer::bench
