// One thread of a benchmark: takes operations from its stream, does them on its session, keeps
// score.
//
// Hot path: per operation one reading of the clock, no lock, no allocation and no virtual call but
// those of the session (long values and keys of a scan or a batch reuse their strings). The caller
// spawns `Work` as often as operations are to be in flight, or calls `WorkInBatches`.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "compute/bench/keys.h"
#include "compute/bench/runner.h"

namespace gossamer::bench {

// What the threads of a phase share.
struct PhaseState {
  const RunnerOptions& options;
  RecordIds& ids;
  std::atomic<bool> stop{false};
  std::atomic<bool> gave_up{false};
};

// The operations that a client is to do: `count` of them, from the workload, or (loading) inserts
// of the records from `first_id` on.
struct Share {
  uint32_t thread = 0;
  uint64_t count = 0;
  bool loading = false;
  uint64_t first_id = 0;
};

class Client {
 public:
  using Clock = std::chrono::steady_clock;

  // `session` and `phase` outlive the client.
  Client(Session& session, PhaseState& phase, const Share& share);

  // Does operations, one after the other, until none is left or the phase is stopped.
  Task<void> Work();
  // The same with MultiGet and MultiPut.
  void WorkInBatches();

  // Operations finished, for a thread that shows progress.
  uint64_t finished() const { return finished_.load(std::memory_order_relaxed); }

  // Valid when the work is done: operations, scanned keys, latency and errors.
  const PhaseResult& result() const { return result_; }

 private:
  struct Batch;

  bool Take(Operation& operation);
  Clock::time_point Lap(LatencyClass latency_class, Clock::time_point start);
  void Succeed();
  void Fail(const Error& error);
  void AcknowledgeInsert(uint64_t id);
  bool Check(const Status& status);
  bool Check(const Result<std::string>& value);
  ScanOptions ScanFrom(const Operation& operation, KeyBuffer& buffer) const;
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
  uint64_t next_load_id_;
  std::optional<OperationStream> stream_;  // of the run phase
  uint64_t failures_in_a_row_ = 0;
  PhaseResult result_;
  alignas(64) std::atomic<uint64_t> finished_{0};  // a line of its own: others read it
};

}  // namespace gossamer::bench
