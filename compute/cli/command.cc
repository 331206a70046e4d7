#include "compute/cli/command.h"

#include <fmt/core.h>

#include <algorithm>

namespace gossamer::cli {
namespace {

const std::vector<Command>& Table() {
  static const std::vector<Command> table = {
      PutCommand(),   GetCommand(),  TtlCommand(),  ExpireCommand(), DeleteCommand(),
      ScanCommand(),  LoadCommand(), DumpCommand(), CheckCommand(),  RepairCommand(),
      SweepCommand(), SaveCommand(), StopCommand(), StatCommand(),   SizeCommand()};
  return table;
}

bool Contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Whether the flag belongs to a command rather than to all.
bool IsCommandFlag(std::string_view name) {
  return std::ranges::any_of(Table(),
                             [&](const Command& command) { return Contains(command.flags, name); });
}

// "gossamer put KEY VALUE"
std::string UsageOf(const Command& command) {
  std::string usage = "gossamer " + std::string(command.name);
  if (!command.arguments.empty()) usage += " " + std::string(command.arguments);
  return usage;
}

std::string Line(std::string_view left, std::string_view right) {
  return fmt::format("  {:<25} {}\n", left, right);
}

}  // namespace

std::span<const Command> Commands() { return Table(); }

std::string HelpOverview() {
  std::string text = "gossamer: an ordered key-value store on disaggregated memory\n\nCommands:\n";
  for (const Command& command : Commands()) text += Line(UsageOf(command), command.summary);
  text += Line("gossamer help COMMAND", "more about one command");
  text += Line("gossamer", "a prompt; or commands from a pipe, one a line");
  text +=
      "\nFlags may stand before or behind the command. Results go to stdout, all else to stderr.\n"
      "Exit status: 0 success; 1 the operation failed or the key is absent; 2 usage; 130 Ctrl-C.\n"
      "In JSON, a key or value that is no UTF-8 has \\xHH escapes and "
      "\"key_encoding\":\"escaped\".\n";
  return text;
}

std::string HelpCommand(const Command& command,
                        const std::function<std::string(std::string_view flag)>& describe_flag) {
  std::string text = UsageOf(command) + ": " + std::string(command.summary) + "\n";
  if (!command.details.empty()) text += "\n" + std::string(command.details);
  text += "\nFlags, besides those of all commands (`gossamer --help`):\n";
  for (const std::string_view flag : command.flags) {
    text += Line("--" + std::string(flag), describe_flag(flag));
  }
  return text + Line("--json", describe_flag("json"));
}

const Command* CommandByName(std::string_view name) {
  const auto found = std::ranges::find(Table(), name, &Command::name);
  return found == Table().end() ? nullptr : &*found;
}

Result<const Command*> FindCommand(const std::vector<std::string>& words,
                                   const std::vector<std::string>& flags_given) {
  const Command* const found = CommandByName(words.front());
  if (found == nullptr) {
    return MakeError(Code::kInvalidArgument, "there is no command '" + words.front() +
                                                 "'; `gossamer help` lists those there are");
  }
  const size_t arguments = words.size() - 1;
  if (arguments < found->min_arguments || arguments > found->max_arguments) {
    return MakeError(Code::kInvalidArgument,
                     fmt::format("`{}` got {}{}; write: {}", words.front(), arguments,
                                 arguments == 1 ? " argument" : " arguments", UsageOf(*found)));
  }
  for (const std::string& flag : flags_given) {
    if (IsCommandFlag(flag) && !Contains(found->flags, flag)) {
      return MakeError(Code::kInvalidArgument, "`" + words.front() + "` takes no --" + flag +
                                                   "; see `gossamer help " + words.front() + "`");
    }
  }
  return found;
}

}  // namespace gossamer::cli
