// load: puts the lines of a file, many at a time.
//
// The calling thread reads and decodes lines and passes them, in batches, to worker threads. Each
// worker has a session and puts a batch at a time, sorted by key (Session::MultiPut). A key always
// goes to the same worker, and a worker puts its batches in the order of the lines: if a key comes
// twice, the later line wins.
//
// A batch whose keys ascend goes to one worker, which builds whole leaves from it
// (Session::LoadSorted). That is found out, or said beforehand (`sorted`). If it was said, a line
// that does not ascend ends the load; all lines before it are stored.
//
// The report says how many lines were stored and from which line to go on. All lines before
// `resume_line` are stored, except a bad line that ended the load: then `resume_line` is the next
// one. Some later lines may be stored, because a batch is sorted. Loading them again is harmless,
// since the order of the lines decides.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/program/stop.h"
#include "compute/cli/line_reader.h"
#include "compute/cli/load_line.h"
#include "gossamer/store.h"

namespace gossamer::cli {

// Full leaves are split by the first key that comes in between. By one such key for each hundred,
// the memory of full leaves grew by 23 %, of leaves like these by 3 % (docs/sizing.md).
inline constexpr double kUsualFill = 0.9;

struct LoadOptions {
  uint32_t threads = 1;
  uint64_t from_line = 1;    // skip earlier lines
  bool sorted = false;       // keys ascend
  double fill = kUsualFill;  // how full leaves get where they do, above 0 and at most 1
  LineForm form = LineForm::kEscaped;
  bool skip_errors = false;  // report and skip a bad line; otherwise it ends the load
};

// An error and its line; line 0: no single line.
struct LoadError {
  uint64_t line = 0;
  Error error;
};

struct LoadReport {
  uint64_t lines = 0;        // read, without those before `from_line`
  uint64_t loaded = 0;       // stored
  uint64_t inserted = 0;     // stored lines with new keys
  uint64_t overwritten = 0;  // stored lines with existing keys
  uint64_t skipped = 0;      // bad lines, with `skip_errors`
  uint64_t bytes = 0;        // of the file
  double seconds = 0;
  bool stopped = false;                  // by a signal
  bool last_line_unterminated = false;   // the file does not end in a newline
  std::optional<LoadError> error;        // the error that ended the load
  std::optional<uint64_t> resume_line;   // where to go on, if the load did not reach the end
  bool resumes_behind_bad_line = false;  // `resume_line` follows the line of `error`
  bool stored_ahead = false;             // lines from `resume_line` on may be stored

  // Whether `inserted` and `overwritten` count stored lines only. A store also counts failed puts.
  bool breakdown_is_exact() const { return inserted + overwritten == loaded; }
  bool complete() const { return !error && !stopped; }
};

// Calls `skipped`, on the calling thread, with each bad line that is skipped.
LoadReport Load(Store& store, const InputFile& file, const LoadOptions& options, const Stop& stop,
                const std::function<void(const LoadError&)>& skipped);

}  // namespace gossamer::cli
