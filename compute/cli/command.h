// The commands of `gossamer`: what each takes, does and says. Written against Store and Session
// only, with options as plain structs, so that tests run them on a store in memory and main.cc on a
// real one.
//
// A command writes its result to `out` and everything else to `err`; with `json` the result is
// JSON, and so is the error of a command that fails (which `err` has as a sentence all the same).
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/program/stop.h"
#include "compute/cli/load.h"
#include "gossamer/store.h"

namespace gossamer::cli {

struct CommandOptions {
  bool json = false;
  bool escaped = false;    // keys and values on the command line, and the value `get` prints
  std::string value_file;  // put: where the value is, instead of an argument
  ScanOptions scan;        // its strings as given: still escaped with `escaped`
  bool keys_only = false;
  bool salvage = false;  // dump: step over what cannot be reached
  LoadOptions load;
  bool show_progress = true;
};

struct Context {
  Store& store;
  Session& session;
  const std::string& store_name;
  const CommandOptions& options;
  const std::vector<std::string>& arguments;
  std::ostream& out;
  std::ostream& err;
  const Stop& stop;
  bool commands_on_stdin = false;  // a REPL: standard input is taken
};

struct Command {
  std::string_view name;
  std::string_view arguments;  // "KEY VALUE"
  std::string_view summary;    // a few words, for the list of commands
  std::string_view details;    // for `help COMMAND`
  size_t min_arguments = 0;
  size_t max_arguments = 0;
  std::vector<std::string_view> flags = {};  // that it takes besides the global ones
  bool stops_cleanly = false;                // looks at `Context::stop`
  int (*run)(const Context& context) = nullptr;
};

std::span<const Command> Commands();

// The command that `words` name, if the number of arguments and the flags given (names, as parsed)
// fit it. InvalidArgument with a sentence for the person, otherwise. `help` is not among the
// commands.
Result<const Command*> FindCommand(const std::vector<std::string>& words,
                                   const std::vector<std::string>& flags_given);

// One for each command: see the file it is in.
int RunPut(const Context& context);
int RunGet(const Context& context);
int RunDelete(const Context& context);
int RunScan(const Context& context);
int RunDump(const Context& context);
int RunLoad(const Context& context);
int RunCheck(const Context& context);
int RunStat(const Context& context);

}  // namespace gossamer::cli
