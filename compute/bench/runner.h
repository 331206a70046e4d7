// Runs the phases of a benchmark against a store and measures them.
//
// Each thread has sessions, an operation stream and statistics of its own. The hot loop shares only
// the ids of inserted records (an atomic) and the request to stop (read only). With batch 1,
// `coroutines` coroutines on each thread keep one operation in flight each. With batch > 1, a
// thread passes that many operations at a time to MultiGet and MultiPut. A load in the order of
// keys goes through LoadSorted.
//
// Latency lasts from just before an operation's key is chosen until its completion, on the steady
// clock. That takes one reading for each operation, because its end is the start of the coroutine's
// next one (23 ns on a 2.6 GHz Zen 5 guest; `rdtsc` would take 11 ns). With a batch, each operation
// gets the time of its batch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/histogram.h"
#include "compute/bench/keys.h"
#include "compute/bench/record_order.h"
#include "compute/bench/workload.h"
#include "gossamer/store.h"

namespace gossamer::bench {

struct RunnerOptions {
  Workload workload;
  double theta = 0.99;
  uint64_t records = 0;     // at least 1; of all processes together
  uint64_t operations = 0;  // of the run phase, likewise
  Share share;              // of the records to load, and of the operations
  uint32_t threads = 1;
  uint32_t sessions = 1;     // of each thread, which share its coroutines
  uint32_t coroutines = 64;  // in flight on each thread
  uint32_t batch = 1;
  KeyChoice keys;
  uint32_t value_bytes = 8;
  uint64_t seed = 0;
  LoadOrder load_order = LoadOrder::kRandom;  // with runs of `batch` records
  uint32_t progress_ms = 0;                   // between points of PhaseResult::progress; 0: none
  // A thread that has seen nothing but failures for so long ends the phase; 0: one that has seen
  // kFailuresToGiveUp in a row.
  uint32_t max_error_seconds = 0;
  std::function<bool()> should_stop;  // called some times a second, on the calling thread
};

// Failed operations by code, with the first message for each.
struct ErrorCounts {
  std::array<uint64_t, kCodes> counts{};
  std::array<std::string, kCodes> messages;

  void Add(const Error& error);
  void Merge(const ErrorCounts& other);
  uint64_t total() const;
};

// How far a phase was at a moment.
struct ProgressPoint {
  double seconds = 0;       // since its start
  uint64_t operations = 0;  // finished, failed ones too
  uint64_t failures = 0;    // of these
};

struct PhaseResult {
  uint64_t operations = 0;  // successful ones; a read-modify-write or a scan counts as one
  uint64_t scanned_keys = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of the client threads; independent of other load on the machine
  // Of all threads of a server that was measured (RedisStore); nullopt if it did not tell, as it
  // has ended meanwhile.
  std::optional<double> server_cpu_seconds = 0;
  // Of successful operations. Reads and updates include both halves of a read-modify-write, which
  // is also measured as a whole.
  std::array<Histogram, kBenchOperations> latency_ns;
  Counters counters;  // of this phase only
  ErrorCounts errors;
  std::vector<ProgressPoint> progress;  // the last one is the end
  bool interrupted = false;             // `should_stop` returned true before the end
  bool gave_up = false;                 // a thread saw only failures: see RunnerOptions

  double operations_per_second() const {
    return seconds > 0 ? static_cast<double>(operations) / seconds : 0;
  }
  const Histogram& latency(BenchOperation kind) const {
    return latency_ns[static_cast<size_t>(kind)];
  }

  // Adds what ran at the same time, from the same start: counts and processor time add up, the
  // time is the longer one. Neither `progress`, nor what is known of a server or a cache as a
  // whole.
  void Merge(const PhaseResult& other);
};

struct WarmUpResult {
  uint64_t keys = 0;  // seen by the scan
  bool interrupted = false;
};

// A store that only returns errors would otherwise be called for hours.
inline constexpr uint64_t kFailuresToGiveUp = 1'000;

// Puts the share of the records 0 .. records-1. Failed operations are counted.
// Errors: those of opening a session.
Result<PhaseResult> LoadRecords(Store& store, const RunnerOptions& options);
// Scans the whole store once, so that the cache and its hints are as in a long-running client.
Result<WarmUpResult> WarmUp(Store& store, const RunnerOptions& options);
// Runs the share of the workload on the records that `LoadRecords` of all shares put.
Result<PhaseResult> RunWorkload(Store& store, const RunnerOptions& options);

}  // namespace gossamer::bench
