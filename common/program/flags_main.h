// Flag handling in `main`, alike in every program:
//
//   - `--flag=value`, `--flag value`, `--switch`, `--noswitch`, one dash or two; `--flagfile=FILE`
//     with one such flag per line, and comments behind '#'; `--` ends the flags; flags and other
//     arguments may be mixed;
//   - an unknown flag or an unsuitable value is one sentence on stderr and exit status 2;
//   - `--help` prints the program's summary and its own flags only, `--version` the version;
//   - glog logs to stderr; its flags (--v, --minloglevel, …) are accepted, but not shown;
//   - the program's own files never get the descriptors of closed standard streams;
//   - output that cannot be written (a full disk) is one sentence on stderr, and a failure.
//
// Only `main.cc` defines and reads flags, and fabric_flags.cc those that several programs have:
// DEFINE_string(…) at its top, and ParseFlags as in
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
  std::string_view summary;  // first part of --help: usage and purpose, ended by '\n'
  std::string_view source;   // __FILE__ of main.cc: flags defined there are the program's own
};

struct ParsedFlags {
  std::optional<int> exit_status;  // if set, the program must end with it and print nothing more
  std::vector<std::string> arguments;  // words that are no flags, without the program's name
  std::vector<std::string> given;      // names of the flags that were set
};

// The whole of `main`: opens the standard descriptors that are closed (standard_streams.h), calls
// `body`, and finishes its output. Returns the exit status.
int RunProgram(const ProgramInfo& program, int argc, char** argv,
               int (*body)(int argc, char** argv));

// Sets the flags and starts glog. Requires (unchecked): called once, before threads are started.
ParsedFlags ParseFlags(const ProgramInfo& program, int argc, char** argv);

// Likewise for words from elsewhere, such as a line typed at a prompt; may be called repeatedly.
// Flags stay set; a gflags::FlagSaver around the call undoes that. `where` precedes the error
// message: "FILE line 3: ".
ParsedFlags ParseFlagWords(const ProgramInfo& program, std::span<const std::string> words,
                           std::string_view where = {});

// "NAME: SENTENCE" and a hint at the help, on stderr. Returns kExitUsage.
int UsageError(const ProgramInfo& program, std::string_view sentence);
// For a program that takes flags only: the exit status with which it must end, if there is another
// argument.
std::optional<int> RefuseArguments(const ProgramInfo& program, const ParsedFlags& parsed);
// "NAME: SENTENCE" on stderr. Returns kExitFailure.
int Failure(const ProgramInfo& program, std::string_view sentence);

// From now on, when `new` gets no memory, the program writes `sentence` to stderr and ends with
// kExitFailure. `sentence` says what to do, ends with a newline, and lives as long as the program.
// Requires (unchecked): called before threads are started.
void ExplainOutOfMemory(std::string_view sentence);

// Flushes std::cout. Returns `exit_status`. If some output could not be written (a full disk), says
// so on stderr and turns success into kExitFailure.
int FinishOutput(const ProgramInfo& program, int exit_status);

// The program's own flags and their values, by name; for a record of how a program was run.
std::vector<std::pair<std::string, std::string>> FlagsInForce(const ProgramInfo& program);

}  // namespace gossamer
