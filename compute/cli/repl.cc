#include "compute/cli/repl.h"

#include <fmt/core.h>

#include <csignal>

#include "common/program/flags_main.h"

namespace gossamer::cli {

Result<std::vector<std::string>> SplitWords(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  for (size_t at = 0; at < line.size(); ++at) {
    const char byte = line[at];
    if (byte == ' ' || byte == '\t' || byte == '\r') {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (byte != '\'' && byte != '"') {
      words.back() += byte;
      continue;
    }
    const size_t end = line.find(byte, at + 1);
    if (end == std::string_view::npos) {
      return MakeError(Code::kInvalidArgument,
                       fmt::format("the quote {} at column {} is not closed", byte, at + 1));
    }
    words.back() += line.substr(at + 1, end - at - 1);
    at = end;
  }
  return words;
}

int RunRepl(LineSource& source, Stop& stop, std::ostream& err,
            const std::function<int(const std::vector<std::string>& words)>& run) {
  int first_failure = kExitSuccess;
  const auto note = [&](int exit_status) {
    if (first_failure == kExitSuccess) first_failure = exit_status;
  };
  while (const std::optional<std::string> line = source.Next()) {
    if (line->starts_with('#')) continue;
    const Result<std::vector<std::string>> words = SplitWords(*line);
    if (!words) {
      err << "gossamer: " << words.error().message << '\n' << std::flush;
      note(kExitUsage);
      continue;
    }
    if (words.value().empty()) continue;
    const std::string& first = words.value().front();
    if (first == "exit" || first == "quit") break;
    note(run(words.value()));
    if (stop.raised() && (!source.interactive() || stop.signal() == SIGTERM)) {
      return stop.exit_code();
    }
    stop.Reset();  // Ctrl-C ended a command, not the prompt
  }
  if (stop.raised()) return stop.exit_code();
  if (!source.error().empty()) {
    err << "gossamer: " << source.error() << '\n';
    return kExitFailure;
  }
  return source.interactive() ? kExitSuccess : first_failure;
}

}  // namespace gossamer::cli
