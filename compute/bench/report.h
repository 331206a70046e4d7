// Output of a benchmark: a summary for people, and JSON for programs.
//
// docs/bench.md defines each number. The JSON is an external contract (schema 1): keys may be
// added, but none is removed or changes its meaning. Both phases are always present, with zeros for
// a phase that did not run.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/histogram.h"
#include "compute/bench/provenance.h"
#include "compute/bench/runner.h"
#include "gossamer/device_stat.h"

namespace gossamer::bench {

// One of several processes, in one phase.
struct ProcessFigures {
  uint64_t operations = 0;
  uint64_t failed = 0;
  double seconds = 0;
  double operations_per_second = 0;
};

struct ProcessReport {
  std::string host;
  ProcessFigures load;
  ProcessFigures run;
};

struct BenchReport {
  nlohmann::ordered_json config;  // every flag with its effective value
  Provenance provenance;
  RunnerOptions options;
  std::string store_description;  // "in-process store of 1.00 GiB"
  DeviceStat device = {};         // by which the store was reached
  bool loaded = false;
  bool ran = false;
  bool interrupted = false;
  std::optional<std::string> server;  // of the Redis protocol, if one was measured: "Redis 7.0.15"
  PhaseResult load;
  PhaseResult run;
  // By rank, if the phases are those of several processes together (process_result.h).
  std::vector<ProcessReport> processes;
  std::string remark;  // the last line
};

// Count, mean, percentiles and maximum of latencies in nanoseconds. All but the count are output in
// microseconds.
nlohmann::ordered_json LatencyJson(const Histogram& histogram);

nlohmann::ordered_json ToJson(const BenchReport& report);

// Several lines, each with a newline.
std::string ToText(const BenchReport& report);

}  // namespace gossamer::bench
