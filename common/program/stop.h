// Ctrl-C and SIGTERM, turned into something that loops can look at and reads can wait on.
//
// Thread-safety: `Raise` may be called from a signal handler, all else by any thread. Cost: looking
// is one relaxed load; a Stop owns a pipe.
#pragma once

#include <atomic>
#include <csignal>

namespace gossamer {

// A request to stop.
class Stop {
 public:
  Stop();
  ~Stop();
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;

  void Raise(int signal);
  // Forgets a request: for a REPL, whose next command starts afresh.
  void Reset();

  bool raised() const { return signal() != 0; }
  // Which signal asked, or 0.
  int signal() const { return signal_.load(std::memory_order_relaxed); }
  // Becomes readable when a stop is requested: for poll(2).
  int fd() const { return pipe_[0]; }
  // What a shell expects of a program that a signal ended: 130 for Ctrl-C.
  int exit_code() const { return 128 + signal(); }

 private:
  std::atomic<int> signal_{0};
  int pipe_[2] = {-1, -1};
};

// While it lives, SIGINT and SIGTERM raise `stop`. A second one ends the program at once, so that a
// person is never locked in. At most one exists at a time.
class StopOnSignals {
 public:
  explicit StopOnSignals(Stop& stop);
  ~StopOnSignals();
  StopOnSignals(const StopOnSignals&) = delete;
  StopOnSignals& operator=(const StopOnSignals&) = delete;

 private:
  struct sigaction old_interrupt_ = {};
  struct sigaction old_terminate_ = {};
};

}  // namespace gossamer
