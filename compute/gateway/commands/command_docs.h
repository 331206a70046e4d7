// What COMMAND DOCS says of the commands.
//
// Thread-safety: all calls from any thread.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "compute/gateway/protocol/reply_writer.h"

namespace gossamer::gateway {

struct CommandDoc {
  std::string_view name;  // of a command or, as client|list, of a subcommand
  std::string_view group;
  std::string_view summary;
  std::string_view arguments = {};   // see argument_notation.h
  std::string_view complexity = {};  // empty: not told
};

// In alphabetical order: those of Commands() and Subcommands().
std::span<const CommandDoc> CommandDocs();

// COMMAND DOCS [name...]: all commands, or those of these names that there are, each of them once.
void AnswerCommandDocs(const std::vector<std::string_view>& arguments, ReplyWriter& reply);

}  // namespace gossamer::gateway
