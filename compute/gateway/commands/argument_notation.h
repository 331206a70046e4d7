// The arguments of a command, in a notation near to that of Redis's documents:
//
//   key value [condition=NX | XX] [GET]
//
//   word                   an argument of this name; its type is key or pattern if its name is,
//                          else string
//   word:integer           likewise, of another type
//   TOKEN                  the word itself, in any case
//   TOKEN word             an argument behind the word that announces it; likewise TOKEN <...>
//   [...]                  may be left out
//   <name=first | second>  one of these; the name is for COMMAND DOCS alone
//   <name=first second>    all of these
//   word..., <...>...      one or more
//
// Thread-safety: all calls from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gossamer::gateway {

// As COMMAND DOCS answers it. It refers to the text that it was made of.
struct Argument {
  std::string name;
  std::string_view type;  // key, string, integer, double, pattern, pure-token, oneof, block
  std::string_view token = {};
  bool is_optional = false;
  bool is_multiple = false;
  std::vector<Argument> arguments = {};  // of oneof and block
};

// Requires (unchecked): `notation` is well-formed; the texts are the program's own.
std::vector<Argument> ParseArguments(std::string_view notation);

}  // namespace gossamer::gateway
