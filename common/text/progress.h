// A progress line on stderr for long work; silent for short work.
//
//   Progress progress({.verb = "loading", .unit = "lines", .total = records});
//   for (...) progress.Update(++done);
//   progress.Finish();
//
// Writes nothing in the first second. After that a terminal gets one line that changes in place, at
// most ten times a second; a pipe or a file gets a whole line every few seconds. `Finish` (also
// called by the destructor) removes the changing line: the caller prints the summary.
//
// Thread-safety: none; one thread updates.
// Cost: `Update` reads the clock on every call (about 25 ns); in a hot loop call it only every so
// many items.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace gossamer {

struct ProgressOptions {
  std::string verb;    // "loading"
  std::string unit;    // "lines"
  uint64_t total = 0;  // 0: unknown
  bool enabled = true;
  double quiet_seconds = 1;        // no line before this
  double terminal_interval = 0.1;  // seconds between changes of the line on a terminal
  double line_interval = 3;        // seconds between lines elsewhere

  // Replaceable by tests; empty: monotonic clock, stderr, whether stderr is a terminal.
  std::function<double()> seconds = {};
  std::function<void(std::string_view)> write = {};
  std::function<bool()> is_terminal = {};
};

class Progress {
 public:
  explicit Progress(ProgressOptions options);
  ~Progress() { Finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Records that `done` of the total are done, and shows it when due, with `remark` unless that is
  // empty.
  void Update(uint64_t done, std::string_view remark = {});
  // Removes the changing line. Later calls do nothing.
  void Finish();

  double elapsed_seconds() const;

 private:
  std::string Line(uint64_t done, double now) const;

  ProgressOptions options_;
  bool is_terminal_ = false;
  bool line_is_shown_ = false;
  bool finished_ = false;
  double start_ = 0;
  double next_ = 0;
  // The start of the rate's interval: the last lines, not the whole run, so that a stall shows.
  double last_time_ = 0;
  uint64_t last_done_ = 0;
};

}  // namespace gossamer
