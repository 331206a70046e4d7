// Turns Ctrl-C and SIGTERM into a flag for loops and a descriptor for blocking reads.
//
// Thread-safety: `Raise` may be called from a signal handler, everything else by any thread.
// Cost: a check is one load; a Stop owns a pipe.
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
  // Forgets a request: for a REPL, before the next command.
  void Reset();

  bool raised() const { return signal() != 0; }
  // The signal that requested the stop, or 0.
  int signal() const { return signal_.load(std::memory_order_acquire); }
  // Becomes readable when a stop is requested: for poll(2).
  int fd() const { return pipe_[0]; }
  // The exit status that a shell expects after a signal: 130 for Ctrl-C.
  int exit_code() const { return 128 + signal(); }

 private:
  std::atomic<int> signal_{0};
  int pipe_[2] = {-1, -1};
};

// While it lives, SIGINT and SIGTERM raise `stop`. A second signal ends the program at once, so
// that the user is never locked in. Within 100 ms it still counts as the first: timeout(1) sends
// one to the program, and then one to its group. At most one exists at a time.
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
