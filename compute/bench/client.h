// One thread of a benchmark: takes operations from its stream, runs them on its session, and
// records the results.
//
// Hot path, per operation: one clock reading; no lock, allocation or virtual call except the
// session's (long values, and keys of a scan or batch, reuse their strings). The caller spawns
// `Work` once for each operation to keep in flight, or calls `WorkInBatches`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "compute/bench/keys.h"
#include "compute/bench/lap_clock.h"
#include "compute/bench/runner.h"

namespace gossamer::bench {

// State shared by the threads of a phase.
struct PhaseState {
  const RunnerOptions& options;
  RecordIds& ids;
  std::atomic<bool> stop{false};
  std::atomic<bool> gave_up{false};
  // While loading: the ids in the order of loading; empty: ascending.
  std::span<const uint64_t> load_ids;
  const LapClock clock{};
};

// The operations assigned to a client: `count` operations of the workload, or, while loading,
// inserts of records, from the one that is `first_id`-th in the order of loading.
struct Share {
  uint32_t thread = 0;
  uint64_t count = 0;
  bool loading = false;
  uint64_t first_id = 0;
};

class BenchClient {
 public:
  // `session` and `phase` must outlive the client.
  BenchClient(Session& session, PhaseState& phase, const Share& share);

  // Runs operations in sequence until none is left or the phase is stopped.
  Task<void> Work();
  // The same with MultiGet and MultiPut.
  void WorkInBatches();
  // While loading records in the order of their keys: by Session::LoadSorted.
  void WorkSorted();

  // Operations finished, for the thread that shows progress.
  uint64_t finished() const { return finished_.load(std::memory_order_relaxed); }

  // Operations, scanned keys, latencies and errors. Valid when the work is done.
  const PhaseResult& result() const { return result_; }

 private:
  struct Batch;

  bool Take(DrawnOperation& operation);
  uint64_t NextIdToLoad();
  // Records what began at `start`, and returns its end. Both are by the phase's clock.
  uint64_t Lap(LatencyClass latency_class, uint64_t start);
  // Times of operations that have succeeded, by the phase's clock.
  void Record(LatencyClass latency_class, uint64_t start, uint64_t end) {
    result_.latency_ns[static_cast<size_t>(latency_class)].Record(
        phase_.clock.NanosecondsBetween(start, end));
  }
  void RecordMany(LatencyClass latency_class, uint64_t start, uint64_t end, uint64_t times) {
    result_.latency_ns[static_cast<size_t>(latency_class)].RecordMany(
        phase_.clock.NanosecondsBetween(start, end), times);
  }
  void Succeed();
  void Fail(const Error& error);
  void AcknowledgeInsert(uint64_t id);
  template <typename T>
  bool Check(const Result<T>& value);
  ScanOptions ScanFrom(const DrawnOperation& operation, KeyBuffer& buffer) const;
  bool FinishScan(const ScanCursor& cursor, uint64_t keys);
  void Fill(Batch& batch);
  void DoGets(Batch& batch);
  void DoPuts(Batch& batch);
  void DoScans(Batch& batch);

  Session& session_;
  PhaseState& phase_;
  const KeyCodec codec_;
  const uint64_t seed_;
  const uint32_t value_bytes_;
  const bool loading_;
  uint64_t remaining_;
  uint64_t next_to_load_;
  std::optional<OperationStream> stream_;  // of the run phase
  uint64_t failures_in_a_row_ = 0;
  PhaseResult result_;
  alignas(64) std::atomic<uint64_t> finished_{0};  // own cache line: another thread reads it
};

}  // namespace gossamer::bench
