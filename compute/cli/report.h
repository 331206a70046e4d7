// Output of commands: sentences on stderr, JSON on stdout.
//
// Bytes in JSON: a key or value that is UTF-8 is stored as it is. Any other is stored with the
// escapes of escape.h, and a member of the same name with "_encoding" appended says "escaped":
//
//   {"key":"\\xff","key_encoding":"escaped","value":"plain"}
#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>

#include "common/status.h"
#include "compute/cli/command.h"

namespace gossamer::cli {

// Members in insertion order.
using Json = nlohmann::ordered_json;

// Adds member `name`, and its "_encoding" member if needed.
void AddBytes(Json& object, const std::string& name, std::string_view bytes);

// {"code":"NotFound","message":"…"}
Json ErrorJson(const Error& error);

// The text for the user: the error's message, or a sentence for its code if it has none.
std::string Sentence(const Error& error);

// Prints "gossamer: SENTENCE" to `err`; with --json also {"error":{…}} to `out`. Returns exit
// status 1.
int Fail(const Context& context, const Error& error);

// `Fail` of what comes before all else: InvalidArgument is a mistake of the user there, with exit
// status 2.
int FailToBegin(const Context& context, const Error& error);

// `Fail` for a key: the sentence for an absent key names it.
int FailOnKey(const Context& context, std::string_view key, const Error& error);

// Prints the sentence to `err`. Returns exit status 2.
int FailOnUsage(const Context& context, const std::string& sentence);

// Says that a key was stored or deleted: as JSON, or at a prompt.
void SayDone(const Context& context, std::string_view key, const char* what);

// One line of JSON.
void WriteJson(std::ostream& out, const Json& object);

// The value of an argument or flag: with `escaped` its escapes are read.
Result<std::string> ReadArgument(const std::string& text, bool escaped);

// The keys that --from, --to and --prefix name.
Result<KeyRange> ReadRange(const CommandOptions& options);

}  // namespace gossamer::cli
