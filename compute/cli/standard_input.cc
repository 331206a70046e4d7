// Lines of standard input for the prompt: libedit on a terminal, a plain reader on a pipe.
#include <fmt/core.h>
#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>

#include "compute/cli/line_reader.h"
#include "compute/cli/repl.h"

namespace gossamer::cli {
namespace {

constexpr size_t kMaxCommandBytes = 8 << 20;  // a command with an escaped value of 1 MiB
constexpr int kHistoryLines = 1000;

char* Prompt(EditLine* /*editor*/) {
  static char prompt[] = "gossamer> ";
  return prompt;
}

class TerminalLines : public LineSource {
 public:
  explicit TerminalLines(Stop& stop)
      : stop_(stop), editor_(el_init("gossamer", stdin, stdout, stderr)), history_(history_init()) {
    HistEvent event;
    history(history_, &event, H_SETSIZE, kHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(editor_, EL_PROMPT, Prompt);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_SIGNAL, 0);  // Stop handles signals
    el_set(editor_, EL_HIST, history, history_);
    el_source(editor_, nullptr);  // the user's own ~/.editrc
  }
  ~TerminalLines() override {
    history_end(history_);
    el_end(editor_);
  }

  std::optional<std::string> Next() override {
    std::cout.flush();
    std::fflush(stdout);
    int length = 0;
    errno = 0;
    const char* text = el_gets(editor_, &length);
    if (text == nullptr || length <= 0) return AfterNoLine();
    std::string line(text, static_cast<size_t>(length));
    if (line.ends_with('\n')) line.pop_back();
    if (!line.empty()) {
      HistEvent event;
      history(history_, &event, H_ENTER, line.c_str());
    }
    return line;
  }
  const std::string& error() const override { return error_; }
  bool interactive() const override { return true; }

 private:
  std::optional<std::string> AfterNoLine() {
    std::fputc('\n', stdout);
    if (stop_.signal() != SIGINT) return std::nullopt;  // end of input, or SIGTERM
    stop_.Reset();
    el_reset(editor_);
    return "";
  }

  const std::string error_;
  Stop& stop_;
  EditLine* const editor_;
  History* const history_;
};

class PipedLines : public LineSource {
 public:
  explicit PipedLines(Stop& stop) : reader_(STDIN_FILENO, kMaxCommandBytes, &stop) {}

  std::optional<std::string> Next() override {
    switch (reader_.Advance()) {
      case LineReader::Next::kLine: return std::string(reader_.line());
      case LineReader::Next::kTooLong:
        error_ = fmt::format("line {} is too long for a command", reader_.number());
        return std::nullopt;
      case LineReader::Next::kFailed:
        error_ = "cannot read standard input: " + reader_.error();
        return std::nullopt;
      case LineReader::Next::kStopped:
      case LineReader::Next::kEnd: return std::nullopt;
    }
    return std::nullopt;
  }
  const std::string& error() const override { return error_; }
  bool interactive() const override { return false; }

 private:
  std::string error_;
  LineReader reader_;
};

}  // namespace

std::unique_ptr<LineSource> StandardInput(Stop& stop) {
  if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) {
    return std::make_unique<TerminalLines>(stop);
  }
  return std::make_unique<PipedLines>(stop);
}

}  // namespace gossamer::cli
