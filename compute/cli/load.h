// load: puts the lines of a file, many at a time.
//
// The calling thread reads and decodes lines and hands them, in batches, to worker threads with a
// session each; a worker keeps many puts in flight. A key always goes to the same worker, which
// never has two puts of one key in flight and starts them in the order of the lines: of a key that
// comes twice, the later line wins.
//
// Nothing is silent: the report says how many lines were stored and the line from which to go on.
// Lines before `resume_line` are all stored, but for a bad line that ended the load, behind which it
// goes on. Some after it may be, as puts overlap: loading them again is harmless, since the order of
// the lines decides.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/program/stop.h"
#include "compute/cli/line_reader.h"
#include "gossamer/store.h"

namespace gossamer::cli {

struct LoadOptions {
  uint32_t threads = 1;
  uint32_t in_flight = 64;   // puts at a time, for each thread
  uint64_t from_line = 1;    // earlier lines are passed over
  bool skip_errors = false;  // a bad line is reported and passed over, else it ends the load
  bool show_progress = true;
};

// What went wrong, and where; line 0: with no single line.
struct LoadError {
  uint64_t line = 0;
  Error error;
};

struct LoadReport {
  uint64_t lines = 0;        // read, those passed over by `from_line` not counted
  uint64_t loaded = 0;       // stored
  uint64_t inserted = 0;     // of them, new keys
  uint64_t overwritten = 0;  // of them, keys that were there
  uint64_t skipped = 0;      // bad lines, with `skip_errors`
  uint64_t bytes = 0;        // of the file
  double seconds = 0;
  bool stopped = false;                  // by a signal
  bool last_line_unterminated = false;   // the file does not end in a newline
  std::optional<LoadError> error;        // what ended the load
  std::optional<uint64_t> resume_line;   // where to go on, if the load did not reach the end
  bool resumes_behind_bad_line = false;  // `resume_line` is the one behind the line of `error`

  // Whether `inserted` and `overwritten` are of stored lines alone: a store counts a put that
  // failed, too.
  bool breakdown_is_exact() const { return inserted + overwritten == loaded; }
  bool complete() const { return !error && !stopped; }
};

// Lines of at most this length are read: a key and a value of the greatest length, all escaped.
size_t MaxLineBytes(const StoreParameters& parameters);

// `skipped` is called, from the calling thread, with each bad line that is passed over.
LoadReport Load(Store& store, const InputFile& file, const LoadOptions& options, const Stop& stop,
                const std::function<void(const LoadError&)>& skipped);

}  // namespace gossamer::cli
