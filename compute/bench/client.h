// One thread of a benchmark: takes operations from its stream, runs them on its sessions, and
// records the results.
//
// Hot path, per operation: one clock reading; no lock, allocation or virtual call except the
// session's (long values, and keys of a scan or batch, reuse their strings).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <optional>
#include <span>
#include <thread>

#include "compute/bench/lap_clock.h"
#include "compute/bench/runner.h"

namespace gossamer::bench {

// What the threads of a phase share.
struct PhaseState {
  const RunnerOptions& options;
  RecordIds& ids;
  const bool loading;
  // While loading: the ids in the order of loading; empty: ascending.
  const std::span<const uint64_t> load_ids;
  std::latch ready;  // counts each thread that has its session, or the error in its place
  std::latch go{1};
  std::atomic<bool> stop{false};
  std::atomic<bool> gave_up{false};
  const LapClock clock{};
};

// A thread with its share of the operations and its results.
struct ClientThread {
  uint32_t number = 0;  // among those of all processes
  uint64_t count = 0;   // operations of the workload; while loading, inserts of records
  uint64_t first = 0;   // while loading: in the order of loading
  // Valid when the thread has ended. Without `seconds`, the progress, and how the phase ended.
  PhaseResult result;
  std::chrono::steady_clock::time_point end;
  // Why there is no session. Valid when all are ready.
  std::optional<Error> error;
  std::thread thread;
  // Operations, and those of them that failed, for the thread that shows progress. On a cache line
  // of their own: another thread reads them.
  alignas(64) std::atomic<uint64_t> finished{0};
  std::atomic<uint64_t> failed{0};
};

// The body of the thread: opens its sessions, waits for `go`, and works until no operation is left
// or the phase is stopped.
void RunClient(Store& store, PhaseState& phase, ClientThread& thread);

}  // namespace gossamer::bench
