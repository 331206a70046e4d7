// Measures the benefit of Sherman's techniques (SIGMOD'22), one after the other, and the product
// beside them: memory servers and compute servers in an ideal simulated network, under skewed reads
// and updates. Sherman's client is that of compute/research/sherman.
//
// A closed loop in virtual time: each coroutine of every thread runs operations in sequence. Times
// are those of MeasuredSimCosts (common/fabric/sim/costs.h): verbs, wires, atomics, and processor
// time for each completion. Only operations that end in a fixed window of virtual time count, so
// that a slow design takes no longer to measure than a fast one. The same options give the same
// figures on any machine.
//
// Thread-safety: none; a measurement belongs to the calling thread.
// Cost: some seconds for each million records, which each measurement loads again, and a second for
// each 10 M events of the network.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/histogram.h"
#include "common/status.h"
#include "compute/bench/zipfian.h"
#include "compute/research/sherman/design.h"
#include "gossamer/counters.h"

namespace gossamer::simulator {

// Sherman's client with some of its techniques, or the product.
struct MeasuredDesign {
  std::string_view name;
  std::optional<sherman::Design> research = std::nullopt;  // nullopt: the product
};

// The designs from the naive one on, each with one more technique than the previous, in the order
// of Sherman's evaluation. The last but one has all; the last is the product.
std::span<const MeasuredDesign> DesignLadder();

struct MeasureOptions {
  uint64_t seed = 1;
  uint32_t memory_servers = 2;
  uint32_t compute_servers = 4;
  uint32_t threads = 16;    // of each compute server
  uint32_t coroutines = 1;  // of each thread: operations in flight
  uint64_t records = 1'000'000;
  double theta = 0.99;  // of YCSB's scrambled zipfian distribution
  uint64_t ranks =
      bench::ScrambledZipfian::kRanks;  // ranks that it draws from, and hashes onto the records
  uint32_t update_percent = 50;         // the rest are reads
  uint32_t milliseconds = 20;           // of virtual time; a warm-up of equal length comes first
};

// Errors: InvalidArgument, naming the flag, for values that make no measurement.
Status Validate(const MeasureOptions& options);

// Results of one design under one load.
struct Measurement {
  MeasureOptions options;
  MeasuredDesign design;
  Histogram read_ns;    // latencies, from the choice of the key to the end
  Histogram update_ns;  // latencies, from the choice of the key to the end
  Counters counters;    // of all sessions
  uint64_t events = 0;  // of the network, since its start

  double seconds() const { return options.milliseconds / 1000.0; }
  double reads_per_second() const { return static_cast<double>(read_ns.count()) / seconds(); }
  double updates_per_second() const { return static_cast<double>(update_ns.count()) / seconds(); }
  double operations_per_second() const { return reads_per_second() + updates_per_second(); }
  // `count` for each update that ended.
  double PerUpdate(uint64_t count) const;
};

// Errors: that of the first failed operation; none should fail.
// Requires (unchecked): valid options.
Result<Measurement> Measure(const MeasureOptions& options, const MeasuredDesign& design);

struct PlannedMeasurement {
  std::string_view part;  // of the measurements: techniques, one_by_one, ...
  MeasureOptions options;
  MeasuredDesign design;
};

// The measurements called `what`:
//   - techniques: the ladder;
//   - large: the ladder with 8 compute servers of 22 threads, as in Sherman's evaluation;
//   - ranks: the ladder with as many zipfian ranks as records;
//   - one_by_one: each of Sherman's techniques alone, and all but each;
//   - release: the naive design and Sherman with locks that are released by CAS and not by WRITE,
//     with the given load and that of `large`;
//   - threads, coroutines, theta: the naive design, Sherman and the product for some values of that
//     option;
//   - all: all of these.
// Errors: InvalidArgument for another name.
Result<std::vector<PlannedMeasurement>> PlanMeasurements(std::string_view what,
                                                         const MeasureOptions& options);

}  // namespace gossamer::simulator
