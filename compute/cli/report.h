// How commands say things: sentences on stderr, JSON on stdout.
//
// Bytes in JSON: a key or value that is UTF-8 stands in its member as it is. One that is not stands
// there with the escapes of escape.h, and a member of the same name with "_encoding" appended says
// "escaped":
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

// Members in the order they were added.
using Json = nlohmann::ordered_json;

// Adds member `name`, and its encoding where it needs one.
void AddBytes(Json& object, const std::string& name, std::string_view bytes);

// {"code":"NotFound","message":"…"}
Json ErrorJson(const Error& error);

// What a person is told: the message; for an error without one, a sentence for its code.
std::string Sentence(const Error& error);

// "gossamer: SENTENCE" on `err`; with `json` also {"error":{…}} on `out`. Returns exit status 1.
int Fail(std::ostream& out, std::ostream& err, bool json, const Error& error);
int Fail(const Context& context, const Error& error);

// The same for a key: an absent one is named.
int FailOnKey(const Context& context, std::string_view key, const Error& error);

// One line of JSON.
void WriteJson(std::ostream& out, const Json& object);

// What an argument or flag stands for: itself, or its escapes read with `escaped`.
Result<std::string> ReadArgument(const std::string& text, bool escaped);

}  // namespace gossamer::cli
