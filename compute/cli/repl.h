// The prompt: commands one after the other on one open store, from a person or from a pipe.
//
// Words are separated by blanks; 'single' or "double" quotes keep blanks in a word, and nothing
// else is special (the escapes of --escaped mean the same in quotes and without). Empty lines and
// lines that begin with '#' do nothing. `exit`, `quit` or the end of the input ends it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "common/program/stop.h"
#include "common/status.h"

namespace gossamer::cli {

Result<std::vector<std::string>> SplitWords(std::string_view line);

// Where lines come from.
class LineSource {
 public:
  virtual ~LineSource() = default;
  // The next line without its newline; an empty one where Ctrl-C took back what was typed; none at
  // the end.
  virtual std::optional<std::string> Next() = 0;
  // Why the input ended before its end; empty if it did not.
  virtual const std::string& error() const = 0;
  // Whether a person types: mistakes are then no failure of the whole.
  virtual bool interactive() const = 0;
};

// A line editor with history if stdin and stdout are terminals, else plain lines of stdin.
std::unique_ptr<LineSource> StandardInput(Stop& stop);

// Runs `run` on the words of each line. Returns 0 if a person typed; else the exit status of the
// first command that failed, though those after it are run as well, or of the signal that ended it.
int RunRepl(LineSource& source, Stop& stop, std::ostream& err,
            const std::function<int(const std::vector<std::string>& words)>& run);

}  // namespace gossamer::cli
