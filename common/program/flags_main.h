// What `main` of every program does with its flags, so that all of them behave alike:
//
//   - `--flag=value`, `--flag value`, `--switch`, `--noswitch`, one dash or two; `--flagfile=FILE`
//     has one such flag in each line, and comments behind '#'; `--` ends the flags; flags and other
//     arguments may be mixed;
//   - a flag that is unknown, or has a value that does not fit, is one sentence on stderr and exit
//     status 2;
//   - `--help` prints the program's summary and its own flags only, `--version` the version;
//   - glog logs to stderr; its flags (--v, --minloglevel, …) are accepted, though not shown;
//   - standard input, output and error that are closed stay so for what the program opens;
//   - output that cannot be written (a full disk) is one sentence on stderr, and no success.
//
// Flags are defined and read in `main.cc` only: DEFINE_string(…) at its top, and ParseFlags as in
//
//   constexpr ProgramInfo kProgram{"gossamer-memory", "Usage: gossamer-memory …\n", __FILE__};
//   int Main(int argc, char** argv) {
//     const ParsedFlags parsed = ParseFlags(kProgram, argc, argv);
//     if (parsed.exit_status) return *parsed.exit_status;
//     …
//   }
//   int main(int argc, char** argv) { return RunProgram(kProgram, argc, argv, Main); }
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gossamer {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFailure = 1;  // The operation failed, or the key is absent.
inline constexpr int kExitUsage = 2;

struct ProgramInfo {
  std::string_view name;
  std::string_view summary;  // what --help begins with: usage and purpose, ended by '\n'
  std::string_view source;   // __FILE__ of main.cc: flags defined there are the program's own
};

struct ParsedFlags {
  std::optional<int> exit_status;      // set: the program is to end with it, all is said
  std::vector<std::string> arguments;  // what is no flag, without the program's name
  std::vector<std::string> given;      // names of the flags that were set
};

// All that `main` does: opens the standard descriptors that are closed (standard_streams.h), calls
// `body`, and finishes its output. Returns the exit status.
int RunProgram(const ProgramInfo& program, int argc, char** argv,
               int (*body)(int argc, char** argv));

// Call once, before threads are started. Sets the flags and starts glog.
ParsedFlags ParseFlags(const ProgramInfo& program, int argc, char** argv);

// The same for words from elsewhere, such as a line typed at a prompt; may be called again and
// again. Flags that were set stay set: a gflags::FlagSaver around it undoes them. `where` stands
// before what is wrong: "FILE line 3: ".
ParsedFlags ParseFlagWords(const ProgramInfo& program, std::span<const std::string> words,
                           std::string_view where = {});

// "NAME: SENTENCE" and where to find help, on stderr. Returns kExitUsage.
int UsageError(const ProgramInfo& program, std::string_view sentence);
// "NAME: SENTENCE" on stderr. Returns kExitFailure.
int Failure(const ProgramInfo& program, std::string_view sentence);

// Flushes std::cout. Returns `exit_status`; where not all output was taken (a full disk), that is
// said on stderr, and success becomes kExitFailure.
int FinishOutput(const ProgramInfo& program, int exit_status);

// The program's own flags and their values, by name; for a record of how a program was run.
std::vector<std::pair<std::string, std::string>> FlagsInForce(const ProgramInfo& program);

}  // namespace gossamer
