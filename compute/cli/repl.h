// The prompt: a sequence of commands on one open store, from a user or a pipe.
//
// Blanks separate words. 'Single' or "double" quotes keep blanks in a word. Nothing else is
// special: the escapes of --escaped mean the same inside and outside of quotes. Empty lines and
// lines that begin with '#' do nothing. `exit`, `quit` or the end of the input ends the prompt.
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

// A source of lines.
class LineSource {
 public:
  virtual ~LineSource() = default;
  // The next line without its newline; empty if Ctrl-C discarded the typed text; nullopt at the
  // end.
  virtual std::optional<std::string> Next() = 0;
  // Why the input ended early; empty if it did not.
  virtual const std::string& error() const = 0;
  // Whether a user types. A failed command is then no failure of the whole session.
  virtual bool interactive() const = 0;
};

// A line editor with history if stdin and stdout are terminals; otherwise plain lines of stdin.
std::unique_ptr<LineSource> StandardInput(Stop& stop);

// Calls `run` with the words of each line. Returns 0 if a user typed. Otherwise returns the exit
// status of the first command that failed, though later ones are run too, or of the signal that
// ended the input.
int RunRepl(LineSource& source, Stop& stop, std::ostream& err,
            const std::function<int(const std::vector<std::string>& words)>& run);

}  // namespace gossamer::cli
