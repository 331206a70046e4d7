// The commands of `gossamer`: their arguments, actions and output. They use only Store and Session,
// and options as plain structs, so that tests run them on a store in memory and main.cc on a real
// one.
//
// A command writes its result to `out` and everything else to `err`. With `json` the result is
// JSON. A failed command then also writes its error to `out` as JSON, besides the sentence on
// `err`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/program/stop.h"
#include "compute/cli/load.h"
#include "compute/cli/size.h"
#include "gossamer/store.h"

namespace gossamer::cli {

struct CommandOptions {
  bool json = false;
  bool escaped = false;     // keys and values on the command line, and the value `get` prints
  std::string ttl;          // put: seconds that the key lives; empty: for ever
  std::string value_file;   // put: the file with the value, instead of an argument
  std::string output;       // get: the file for the value, instead of standard output
  ScanOptions scan;         // strings as given: with `escaped` still escaped
  bool salvage = false;     // dump: skip what cannot be reached
  bool all = false;         // delete: every key
  std::string empty_bound;  // a flag for a range of keys that was given, but as an empty string
  bool dry_run = false;     // repair: change nothing
  bool lose_data = false;   // stop: also where that loses data
  bool quick = false;       // stat: without reading the tree
  LoadOptions load;
  SizeOptions size;
};

struct Context {
  Store* store;      // null for a command that needs none, and for `dump` of one without its root
  Session* session;  // likewise
  const OpenOptions& open;  // of the store that the program was told of
  const CommandOptions& options;
  const std::vector<std::string>& arguments;
  std::ostream& out;
  std::ostream& err;
  const Stop& stop;
  bool commands_on_stdin = false;  // a REPL reads commands from standard input
};

struct Command {
  std::string_view name;
  std::string_view arguments;  // "KEY VALUE"
  std::string_view summary;    // a few words, for the list of commands
  std::string_view details;    // for `help COMMAND`
  size_t min_arguments = 0;
  size_t max_arguments = 0;
  std::vector<std::string_view> flags = {};  // besides the global flags
  bool stops_cleanly = false;                // obeys `Context::stop`
  bool needs_store = true;                   // it is opened before
  int (*run)(const Context& context) = nullptr;
};

std::span<const Command> Commands();

// The program's purpose and its commands; ends where a list of flags may follow.
std::string HelpOverview();

// Help for one command. `describe_flag` returns the description of a flag.
std::string HelpCommand(const Command& command,
                        const std::function<std::string(std::string_view flag)>& describe_flag);

// The command of that name, or null.
const Command* CommandByName(std::string_view name);

// Returns the command that `words` name. `help` is not among the commands.
// Errors: InvalidArgument, with a sentence for the user, if no command has that name, or the number
// of arguments or the given flags (names as parsed) do not fit it.
Result<const Command*> FindCommand(const std::vector<std::string>& words,
                                   const std::vector<std::string>& flags_given);

// Each command, from the file of its function.
Command PutCommand();
Command GetCommand();
Command TtlCommand();
Command ExpireCommand();
Command DeleteCommand();
Command ScanCommand();
Command LoadCommand();
Command DumpCommand();
Command CheckCommand();
Command SweepCommand();
Command RepairCommand();
Command SaveCommand();
Command StopCommand();
Command StatCommand();
Command SizeCommand();

}  // namespace gossamer::cli
