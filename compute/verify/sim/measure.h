// Measures what the techniques of the write path are worth (design section 6; Sherman, SIGMOD'22): the store, memory
// servers and compute servers, in an ideal simulated network, under skewed reads and updates.
//
// A closed loop in virtual time: every thread does one operation after the other, or as many at a time as it has
// coroutines. The time is that of MeasuredSimCosts (common/fabric/sim/costs.h): verbs, wires, atomics, and a processor
// time for each completion. What is counted is what ends between two moments of virtual time, so that a slow design
// takes no longer to measure than a fast one. The same options give the same figures on any machine.
//
// Cost: about a second for each million records, which are loaded anew for each measurement, and one for each 10 M
// events of the network. Thread-safety: none; a measurement belongs to the thread that calls.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/histogram.h"
#include "common/status.h"
#include "compute/bench/zipfian.h"
#include "gossamer/counters.h"
#include "gossamer/techniques.h"

namespace gossamer::simulator {

// The store with some of its techniques.
struct MeasuredDesign {
  std::string_view name;
  Techniques techniques{};
  bool on_chip_locks = true;
};

// From the naive design on, each with one technique more than the one before; the last has all. The order is that of
// Sherman's evaluation.
std::span<const MeasuredDesign> DesignLadder();

struct MeasureOptions {
  uint64_t seed = 1;
  uint32_t memory_servers = 2;
  uint32_t compute_servers = 4;
  uint32_t threads = 16;    // of each compute server
  uint32_t coroutines = 1;  // of each thread: operations under way at a time
  uint64_t records = 1'000'000;
  double theta = 0.99;  // of YCSB's scrambled zipfian distribution
  uint64_t ranks =
      bench::ScrambledZipfian::kRanks;  // that it draws from, and hashes onto the records
  uint32_t update_percent = 50;         // the rest are reads
  uint32_t milliseconds = 20;  // of virtual time, and as much before, to come to a steady state
};

// InvalidArgument, with a sentence that names the flag, for numbers that make no measurement.
Status Validate(const MeasureOptions& options);

// What one design did under one load.
struct Measurement {
  MeasureOptions options;
  MeasuredDesign design;
  Histogram read_ns;    // latencies; from the choice of the key to the end
  Histogram update_ns;  // likewise
  Counters counters;    // of all sessions
  uint64_t events = 0;  // of the network, from its beginning

  double seconds() const { return options.milliseconds / 1000.0; }
  double reads_per_second() const { return static_cast<double>(read_ns.count()) / seconds(); }
  double updates_per_second() const { return static_cast<double>(update_ns.count()) / seconds(); }
  double operations_per_second() const { return reads_per_second() + updates_per_second(); }
  // Of a count, for each update that ended.
  double PerUpdate(uint64_t count) const;
};

// The error of the first operation that fails, which none should. The options must be valid.
Result<Measurement> Measure(const MeasureOptions& options, const MeasuredDesign& design);

struct PlannedMeasurement {
  std::string_view part;  // of what is measured: techniques, one_by_one, ...
  MeasureOptions options;
  MeasuredDesign design;
};

// What is measured by the name `what`: techniques (the ladder), large (likewise, with 8 compute servers of 22 threads,
// as in Sherman's evaluation), ranks (the ladder with as many zipfian ranks as records), one_by_one (each technique
// alone, and all but each), threads, coroutines or theta (the naive design and all techniques, for some values of that
// option), or all of these. InvalidArgument for another name.
Result<std::vector<PlannedMeasurement>> PlanMeasurements(std::string_view what,
                                                         const MeasureOptions& options);

}  // namespace gossamer::simulator
