#include "compute/cli/command.h"

#include <algorithm>

namespace gossamer::cli {
namespace {

const std::vector<Command>& Table() {
  static const std::vector<Command> table = {
      {.name = "put",
       .arguments = "KEY VALUE",
       .summary = "insert or overwrite a key",
       .details =
           "Keys and values are taken as the bytes they are; with --escaped, \\t \\n \\\\ and "
           "\\xHH\n"
           "stand for bytes that a shell cannot pass. With --value_file=FILE (or - for standard\n"
           "input) the value is the whole content of a file, and VALUE is left out.\n"
           "A key or value that begins with '-' goes behind '--': gossamer put -- -1 minus\n",
       .min_arguments = 1,
       .max_arguments = 2,
       .flags = {"escaped", "value_file"},
       .run = RunPut},
      {.name = "get",
       .arguments = "KEY",
       .summary = "print the value of a key",
       .details = "Prints the value as it is, followed by a newline; with --escaped, on one line "
                  "whatever\n"
                  "it holds. Exit status 1 if the key is absent.\n",
       .min_arguments = 1,
       .max_arguments = 1,
       .flags = {"escaped"},
       .run = RunGet},
      {.name = "delete",
       .arguments = "KEY",
       .summary = "remove a key",
       .details = "Exit status 1 if the key is absent.\n",
       .min_arguments = 1,
       .max_arguments = 1,
       .flags = {"escaped"},
       .run = RunDelete},
      {.name = "scan",
       .arguments = "",
       .summary = "list keys and values in order",
       .details = "Prints key<TAB>value lines, escaped as `dump` does, of the keys from --from "
                  "(inclusive)\n"
                  "to --to (exclusive), or those that begin with --prefix. With --json, an object "
                  "a line.\n",
       .flags = {"escaped", "from", "to", "prefix", "limit", "reverse", "keys_only"},
       .stops_cleanly = true,
       .run = RunScan},
      {.name = "load",
       .arguments = "FILE",
       .summary = "put the lines of a file (- is standard input)",
       .details = "Lines are key<TAB>value; a lone key has an empty value, and so an empty line is "
                  "the empty\n"
                  "key. \\t \\n \\\\ \\xHH are escapes, every other byte (a carriage return too) "
                  "stands for itself.\n"
                  "The later line of a key wins. A bad line ends the load (--on_error=stop: the "
                  "lines before it\n"
                  "are stored, exit status 1) or is reported and passed over (--on_error=skip, "
                  "exit status 1 at\n"
                  "the end). Ctrl-C finishes what is in flight and exits with 130. Whatever ends a "
                  "load, it says\n"
                  "how many lines are stored and from which line to go on, which is the one behind "
                  "a bad line:\n"
                  "--from_line=N.\n",
       .min_arguments = 1,
       .max_arguments = 1,
       .flags = {"threads", "in_flight", "from_line", "on_error"},
       .stops_cleanly = true,
       .run = RunLoad},
      {.name = "dump",
       .arguments = "",
       .summary = "print the whole store in the form that load reads",
       .details =
           "Prints key<TAB>value lines in the order of the keys; any bytes survive dump and load.\n"
           "With --json, an object a line.\n"
           "Where a part of the store cannot be reached, --salvage writes the rest, says which "
           "keys are\n"
           "missing and why, and exits with 1.\n",
       .flags = {"salvage"},
       .stops_cleanly = true,
       .run = RunDump},
      {.name = "check",
       .arguments = "",
       .summary = "walk the whole tree and verify every invariant",
       .details =
           "Meaningful while nobody writes: who writes holds locks, which it counts as problems.\n"
           "Exit status 1 if there is a problem.\n",
       .run = RunCheck},
      {.name = "stat",
       .arguments = "",
       .summary = "show the store's parameters and its memory servers",
       .details = "",
       .run = RunStat},
  };
  return table;
}

std::string Usage(const Command& command) {
  std::string usage = "gossamer " + std::string(command.name);
  if (!command.arguments.empty()) usage += " " + std::string(command.arguments);
  return usage;
}

bool Contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether the flag belongs to a command rather than to all.
bool IsCommandFlag(std::string_view name) {
  return std::any_of(Table().begin(), Table().end(),
                     [&](const Command& command) { return Contains(command.flags, name); });
}

}  // namespace

std::span<const Command> Commands() { return Table(); }

Result<const Command*> FindCommand(const std::vector<std::string>& words,
                                   const std::vector<std::string>& flags_given) {
  const auto found = std::find_if(Table().begin(), Table().end(), [&](const Command& command) {
    return command.name == words.front();
  });
  if (found == Table().end()) {
    return MakeError(Code::kInvalidArgument, "there is no command '" + words.front() +
                                                 "'; `gossamer help` lists those there are");
  }
  const size_t arguments = words.size() - 1;
  if (arguments < found->min_arguments || arguments > found->max_arguments) {
    return MakeError(Code::kInvalidArgument, "`" + words.front() + "` got " +
                                                 std::to_string(arguments) +
                                                 (arguments == 1 ? " argument" : " arguments") +
                                                 "; write: " + Usage(*found));
  }
  for (const std::string& flag : flags_given) {
    if (IsCommandFlag(flag) && !Contains(found->flags, flag)) {
      return MakeError(Code::kInvalidArgument, "`" + words.front() + "` takes no --" + flag +
                                                   "; see `gossamer help " + words.front() + "`");
    }
  }
  return &*found;
}

}  // namespace gossamer::cli
