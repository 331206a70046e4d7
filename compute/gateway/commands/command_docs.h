// What COMMAND DOCS says of the commands: constants.
//
// Thread-safety: all calls from any thread.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "compute/gateway/protocol/reply_writer.h"

namespace gossamer::gateway {

struct Argument {
  std::string_view name;
  std::string_view type;        // key, string, integer, double, pattern, pure-token, oneof, block
  std::string_view token = {};  // the word that announces it, or that it is; empty: none
  bool is_optional = false;
  bool is_multiple = false;
  std::span<const Argument> arguments = {};  // of oneof and block
};

struct CommandDoc {
  std::string_view name;  // of a command or, as client|list, of a subcommand
  std::string_view group;
  std::string_view summary;
  std::span<const Argument> arguments = {};
  std::string_view complexity = {};  // empty: not told
};

// In alphabetical order: those of Commands() and Subcommands().
std::span<const CommandDoc> CommandDocs();

// COMMAND DOCS [name...]: all commands, or those of these names that there are, each of them once.
void AnswerCommandDocs(const std::vector<std::string_view>& arguments, ReplyWriter& reply);

}  // namespace gossamer::gateway
