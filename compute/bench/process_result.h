// What one process of a benchmark of several has measured, on its way to the one that merges.
//
// Latencies travel as the buckets of their histograms, so a merged percentile is that of all
// operations together. A text has some 10 KB for each kind of operation; it stays below what
// memcached keeps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/status.h"
#include "compute/bench/report.h"
#include "compute/bench/runner.h"

namespace gossamer::bench {

// The text has the phases of a report. Their progress is left out.
std::string EncodePhases(const BenchReport& report);

// Replaces the phases of `report` by those of all processes together, and adds each to
// `report.processes`. `texts` are by rank, as `hosts`. The time of a phase is that of the process
// that took the longest: they started together. The bytes of caches add up. The processor time of a
// server is the longest that one of them saw.
// Errors: Corruption, with the host, for a text that is none of EncodePhases.
Status MergePhases(const std::vector<std::string>& texts, const std::vector<std::string>& hosts,
                   BenchReport& report);

}  // namespace gossamer::bench
