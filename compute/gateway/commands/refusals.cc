#include "compute/gateway/commands/refusals.h"

#include <glog/logging.h>

#include "compute/gateway/commands/absent_commands.h"

namespace gossamer::gateway {
namespace {

constexpr size_t kMostQuoted = 128;

// At most `bytes` of a word, up to its first NUL, as Redis quotes it.
std::string Quoted(std::string_view word, size_t bytes) {
  word = word.substr(0, bytes);
  return "'" + std::string(word.substr(0, word.find('\0'))) + "'";
}

std::string UnknownCommand(const std::vector<std::string_view>& arguments) {
  if (const std::string_view reason = ReasonOfAbsence(arguments[0]); !reason.empty()) {
    return std::string(reason);
  }
  std::string words;
  for (size_t i = 1; i < arguments.size() && words.size() < kMostQuoted; ++i) {
    words += Quoted(arguments[i], kMostQuoted - words.size()) + " ";
  }
  return "ERR unknown command " + Quoted(arguments[0], kMostQuoted) +
         ", with args beginning with: " + words;
}

std::string Capitals(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

// Without HELP.
std::vector<std::string> SubcommandsOf(const Command& command) {
  std::vector<std::string> names;
  for (const Subcommand& one : Subcommands()) {
    if (one.parent != command.id || IsHelp(one)) continue;
    names.push_back(Capitals(one.name.substr(command.name.size() + 1)));
  }
  return names;
}

std::string UnknownSubcommand(const Command& command, std::string_view word) {
  std::string names;
  for (const std::string& name : SubcommandsOf(command))
    names += (names.empty() ? "" : ", ") + name;
  std::string text = "ERR unknown subcommand " + Quoted(word, kMostQuoted) + ". " +
                     Capitals(command.name) + " has " + names + " here";
  if (command.id == CommandId::kAcl) text += ": users are those of --users_file";
  if (command.id == CommandId::kConfig) text += ": flags configure this gateway";
  return text;
}

}  // namespace

std::string RefusalOf(const Command* command, const Subcommand* subcommand,
                      const std::vector<std::string_view>& arguments) {
  if (command == nullptr) return UnknownCommand(arguments);
  if (!IsRightCount(command->arity, arguments.size())) return WrongNumberOfArguments(command->name);
  if (!HasSubcommands(*command) || arguments.size() == 1) return {};
  if (subcommand == nullptr) return UnknownSubcommand(*command, arguments[1]);
  const bool is_right = IsRightCount(subcommand->arity, arguments.size());
  return is_right ? std::string() : WrongNumberOfArguments(subcommand->name);
}

std::vector<std::string> HelpOn(const Command& command) {
  std::vector<std::string> lines = SubcommandsOf(command);
  lines.insert(lines.begin(), Capitals(command.name) +
                                  " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  lines.emplace_back("HELP");
  lines.emplace_back("    Prints this help. They are as in Redis.");
  return lines;
}

bool IsTransaction(const std::vector<std::string_view>& arguments) {
  return arguments.size() == 1 && IsWord(arguments[0], "multi");
}

void LogHttp(std::string_view address) {
  LOG_EVERY_T(WARNING, 10)
      << "ended the connection of " << address
      << ", which sent POST or Host: in the place of a command: somebody may be attacking this "
         "server by way of a web page (one in 10 s is logged)";
}

std::string WrongNumberOfArguments(std::string_view name) {
  return "ERR wrong number of arguments for '" + std::string(name) + "' command";
}

}  // namespace gossamer::gateway
