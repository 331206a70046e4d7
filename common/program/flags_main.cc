#include "common/program/flags_main.h"

#include <fmt/core.h>
#include <gflags/gflags.h>
#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iostream>
#include <new>
#include <span>
#include <sstream>

#include "common/program/standard_streams.h"
#include "common/version.h"
#include "proto/formats.h"

namespace gossamer {
namespace {

using FlagInfo = gflags::CommandLineFlagInfo;

// gflags keeps only the end of the file name, behind the last common root.
bool IsOwn(const ProgramInfo& program, const FlagInfo& flag) {
  return !flag.filename.empty() && (program.source.ends_with(flag.filename) ||
                                    flag.filename.ends_with("program/fabric_flags.cc"));
}

// glog's flags, which are not the program's own.
bool IsLogging(const FlagInfo& flag) {
  return flag.filename.ends_with("logging.cc") || flag.filename.ends_with("vlog_is_on.cc");
}

std::vector<FlagInfo> AcceptedFlags(const ProgramInfo& program) {
  std::vector<FlagInfo> flags;
  gflags::GetAllFlags(&flags);
  std::erase_if(flags,
                [&](const FlagInfo& flag) { return !IsOwn(program, flag) && !IsLogging(flag); });
  return flags;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// Short form of a value: gflags prints 0.99 as 0.98999999999999999.
std::string Shown(const FlagInfo& flag, const std::string& value) {
  if (flag.type != "double") return value;
  double number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return std::string(text.data(), end);
}

std::string WhatFits(const std::string& type) {
  if (type == "bool") return "true or false";
  if (type == "double") return "a number";
  if (type == "string") return "a text";
  return type.starts_with('u') ? "a whole number from 0" : "a whole number";
}

class Parser {
 public:
  Parser(const ProgramInfo& program, ParsedFlags& parsed)
      : program_(program), parsed_(parsed), flags_(AcceptedFlags(program)) {}

  const std::string& problem() const { return problem_; }
  bool help() const { return help_; }
  bool version() const { return version_; }

  // `values_may_follow`: accept "--flag value" as two words; not in flag files.
  void Parse(std::span<const std::string> words, bool values_may_follow) {
    for (size_t i = 0; i < words.size() && problem_.empty(); ++i) {
      const std::string& word = words[i];
      if (word == "--" && values_may_follow) {
        parsed_.arguments.insert(parsed_.arguments.end(),
                                 words.begin() + static_cast<ptrdiff_t>(i) + 1, words.end());
        return;
      }
      if (word.size() < 2 || word[0] != '-') {
        parsed_.arguments.push_back(word);
        continue;
      }
      const bool has_next = values_may_follow && i + 1 < words.size();
      if (One(word, has_next ? &words[i + 1] : nullptr)) ++i;
    }
  }

 private:
  // Returns whether `next` was used up as the value.
  bool One(const std::string& word, const std::string* next) {
    const std::string text = word.substr(word.starts_with("--") ? 2 : 1);
    const size_t equals = text.find('=');
    std::string name = text.substr(0, equals);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = text.substr(equals + 1);

    if (name == "help" || name == "h") return help_ = true, false;
    if (name == "version") return version_ = true, false;
    const FlagInfo* flag = Find(name);
    if (flag == nullptr && !value && name.starts_with("no")) {
      flag = Find(name.substr(2));
      if (flag != nullptr && flag->type != "bool") flag = nullptr;
      if (flag != nullptr) value = "false";
    }
    const bool is_file = name == "flagfile";
    if (flag == nullptr && !is_file) {
      problem_ = "there is no flag --" + name + Suggestion(name);
      return false;
    }
    if (!value && flag != nullptr && flag->type == "bool") value = "true";
    const bool take_next = !value && next != nullptr;
    if (take_next) value = *next;
    if (!value) {
      problem_ = "--" + name + " needs a value: --" + name + "=…";
    } else if (is_file) {
      File(*value);
    } else {
      Set(*flag, *value);
    }
    return take_next;
  }

  const FlagInfo* Find(std::string name) const {
    std::replace(name.begin(), name.end(), '-', '_');
    for (const FlagInfo& flag : flags_) {
      if (flag.name == name) return &flag;
    }
    return nullptr;
  }

  std::string Suggestion(const std::string& name) const {
    const FlagInfo* best = nullptr;
    size_t best_distance = 3;  // A word at more than two edits is another word.
    for (const FlagInfo& flag : flags_) {
      const size_t distance = EditDistance(name, flag.name);
      if (IsOwn(program_, flag) && distance < best_distance) {
        best = &flag;
        best_distance = distance;
      }
    }
    return best == nullptr ? std::string() : "; did you mean --" + best->name + "?";
  }

  void Set(const FlagInfo& flag, const std::string& value) {
    if (gflags::SetCommandLineOption(flag.name.c_str(), value.c_str()).empty()) {
      problem_ = "--" + flag.name + "=" + value + " does not fit; give " + WhatFits(flag.type);
      return;
    }
    parsed_.given.push_back(flag.name);
  }

  void File(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
      problem_ = "cannot read the flag file " + path;
      return;
    }
    if (std::ranges::find(files_, path) != files_.end()) {
      problem_ = "the flag file " + path + " includes itself";
      return;
    }
    files_.push_back(path);
    std::string line;
    for (int number = 1; std::getline(file, line) && problem_.empty(); ++number) {
      const size_t begin = line.find_first_not_of(" \t");
      if (begin == std::string::npos || line[begin] == '#') continue;
      const std::string flag = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
      if (flag[0] != '-') {
        problem_ = "'" + flag + "' is no flag; write --name=value in each line";
      } else {
        Parse(std::span(&flag, 1), false);
      }
      if (!problem_.empty()) problem_ = fmt::format("{} line {}: {}", path, number, problem_);
    }
    files_.pop_back();
  }

  const ProgramInfo& program_;
  ParsedFlags& parsed_;
  const std::vector<FlagInfo> flags_;
  std::string problem_;
  bool help_ = false;
  bool version_ = false;
  std::vector<std::string> files_;  // that are being read: each is named by the one before
};

std::string_view out_of_memory;  // what to say

// Nothing here allocates: not the log either.
[[noreturn]] void SayOutOfMemory() {
  static_cast<void>(!write(STDERR_FILENO, out_of_memory.data(), out_of_memory.size()));
  _exit(kExitFailure);
}

void PrintHelp(const ProgramInfo& program) {
  std::cout << program.summary << "\nFlags:\n";
  constexpr size_t kColumn = 30;
  constexpr size_t kWidth = 100;
  for (const FlagInfo& flag : AcceptedFlags(program)) {
    if (!IsOwn(program, flag)) continue;
    std::string line = "  --" + flag.name;
    if (flag.type == "bool") {
      if (flag.default_value == "true") line = "  --[no]" + flag.name;
    } else if (!flag.default_value.empty()) {
      line += "=" + Shown(flag, flag.default_value);
    } else {
      line += "=…";
    }
    line += ' ';
    std::istringstream words(flag.description);
    const size_t wide = line.ends_with("… ") ? 2 : 0;  // '…' has three bytes and one column.
    if (line.size() - wide < kColumn) line.append(kColumn + wide - line.size(), ' ');
    size_t used = line.size() - wide;
    for (std::string word; words >> word;) {
      if (used + 1 + word.size() > kWidth) {
        line += "\n" + std::string(kColumn, ' ');
        used = kColumn;
      }
      line += " " + word;
      used += 1 + word.size();
    }
    std::cout << line << '\n';
  }
  std::cout << "  --flagfile=FILE              more flags, one in each line\n"
               "  --help, --version\n";
}

}  // namespace

int RunProgram(const ProgramInfo& program, int argc, char** argv,
               int (*body)(int argc, char** argv)) {
  if (const Status opened = OpenStandardDescriptors(); !opened) {
    return Failure(program, opened.error().message);
  }
  OutputBuffer output(STDOUT_FILENO);
  std::streambuf* const before = std::cout.rdbuf(&output);
  const int exit_status = FinishOutput(program, body(argc, argv));
  std::cout.rdbuf(before);
  return exit_status;
}

ParsedFlags ParseFlags(const ProgramInfo& program, int argc, char** argv) {
  static const std::string name(program.name);  // glog keeps the pointer.
  google::InitGoogleLogging(name.c_str());
  gflags::SetCommandLineOption("logtostderr", "true");
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  return ParseFlagWords(program, words);
}

ParsedFlags ParseFlagWords(const ProgramInfo& program, std::span<const std::string> words,
                           std::string_view where) {
  ParsedFlags parsed;
  Parser parser(program, parsed);
  parser.Parse(words, true);
  if (!parser.problem().empty()) {
    parsed.exit_status = UsageError(program, std::string(where) + parser.problem());
  } else if (parser.help()) {
    PrintHelp(program);
    parsed.exit_status = kExitSuccess;
  } else if (parser.version()) {
    std::cout << program.name << ' ' << BuildVersion() << " (" << BuildCompiler() << ", "
              << BuildType() << "; formats " << FormatsText() << ")\n";
    parsed.exit_status = kExitSuccess;
  }
  return parsed;
}

int UsageError(const ProgramInfo& program, std::string_view sentence) {
  std::cerr << program.name << ": " << sentence << " (see " << program.name << " --help)\n";
  return kExitUsage;
}

std::optional<int> RefuseArguments(const ProgramInfo& program, const ParsedFlags& parsed) {
  if (parsed.arguments.empty()) return std::nullopt;
  return UsageError(program,
                    "'" + parsed.arguments[0] + "' is no flag; there are no other arguments");
}

int Failure(const ProgramInfo& program, std::string_view sentence) {
  std::cerr << program.name << ": " << sentence << '\n';
  return kExitFailure;
}

void ExplainOutOfMemory(std::string_view sentence) {
  out_of_memory = sentence;
  std::set_new_handler(SayOutOfMemory);
}

int FinishOutput(const ProgramInfo& program, int exit_status) {
  const Status written = FlushOutput(std::cout);
  if (written) return exit_status;
  const int failed = Failure(program, written.error().message);
  return exit_status == kExitSuccess ? failed : exit_status;
}

std::vector<std::pair<std::string, std::string>> FlagsInForce(const ProgramInfo& program) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const FlagInfo& flag : AcceptedFlags(program)) {
    if (IsOwn(program, flag)) values.emplace_back(flag.name, Shown(flag, flag.current_value));
  }
  return values;
}

}  // namespace gossamer
