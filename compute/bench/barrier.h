// Barrier: lets the processes of one benchmark, on any machines, work phase by phase together.
//
// They gather by a roster, a text of the bootstrap (gathering.h). A process's rank is its place in
// the sealed roster. At a barrier each writes there that it has arrived, and polls until all have.
// In the end each leaves its result as a note of its own, and rank 0 takes the results and removes
// all texts.
//
// A thread changes this process's beat in the roster each second. A member that is dead or has left
// ends the benchmark for all: IsBroken within a beat if its process is gone on this machine or has
// left, else after BarrierOptions::silence.
//
// Thread-safety: one thread; IsBroken any.
// Cost: a poll is one read of the bootstrap: 20 a second while a process waits for others to finish
// a phase, and 200 from then until all know that all have. More than ten and five processes share
// 200 and 1,000.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/bootstrap/bootstrap.h"
#include "common/status.h"
#include "compute/bench/gathering.h"
#include "compute/bench/roster.h"
#include "compute/bench/workload.h"

namespace gossamer::bench {

class Barrier {
 public:
  // Waits until all processes are there. `bootstrap` must outlive the barrier. Errors: those of
  // Gather.
  static Result<std::unique_ptr<Barrier>> Join(Bootstrap& bootstrap, const BarrierOptions& options);
  // Tells the others if the benchmark has not ended.
  ~Barrier();
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  Share share() const { return {.processes = options_.processes, .rank = rank_}; }
  const std::string& HostOf(uint32_t rank) const { return hosts_[rank]; }

  // Waits until all processes have called it as often. They return within about a poll of each
  // other.
  // Errors: NodeUnreachable, with the process that is missing, or if the bootstrap does not answer;
  // Contended if the user has stopped the program.
  Status Meet();
  // Whether Meet would fail, as a process is missing.
  bool IsBroken() const { return is_broken_.load(std::memory_order_acquire); }

  // Gives the results to rank 0, and ends the benchmark. Returns those of all processes by rank to
  // rank 0, and none to others. Requires (unchecked): called once, as the last. Errors: as Meet;
  // InvalidArgument if the bootstrap cannot keep a result of that size.
  Result<std::vector<std::string>> HandIn(const std::string& result);

 private:
  Barrier(Bootstrap& bootstrap, const BarrierOptions& options, const RosterMember& self,
          const Roster& roster);

  // These require the mutex.
  Status Look();
  Status Observe(Roster roster);
  Status SeeNoRoster();
  Status MissAnswer(const Error& error);
  Status Break(const std::string& what);
  uint32_t CountMissing() const;

  bool HasSaidLast() const;

  Status Arrive(std::chrono::milliseconds interval, bool is_last = false);
  Status AwaitEnd();
  void KeepBeating();
  void Leave();

  std::string NoteOf(uint32_t rank) const;
  Status PutResult(const std::string& result);
  Result<std::vector<std::string>> TakeResults();
  void RemoveResults();
  void RemoveRoster();

  Bootstrap& bootstrap_;
  const BarrierOptions options_;
  const std::string note_;
  const uint64_t id_;  // of the roster
  uint32_t rank_ = 0;
  std::vector<std::string> hosts_;  // by rank

  std::mutex mutex_;   // guards what follows
  RosterMember self_;  // as the roster should have it
  Roster roster_;      // as last read
  Pulses pulses_;
  std::chrono::steady_clock::time_point answered_;  // when the bootstrap last did
  bool is_last_round_ = false;  // once all have arrived, rank 0 removes the roster
  bool has_ended_ = false;      // the roster was removed
  std::optional<Error> error_;  // why the barrier is broken
  bool stops_ = false;
  std::condition_variable stop_;

  std::atomic<bool> is_broken_ = false;
  std::thread keeper_;
};

}  // namespace gossamer::bench
