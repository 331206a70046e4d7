#include "compute/cli/help.h"

#include <fmt/core.h>

namespace gossamer::cli {
namespace {

std::string Line(std::string_view left, std::string_view right) {
  return fmt::format("  {:<25} {}\n", left, right);
}

}  // namespace

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

}  // namespace gossamer::cli
