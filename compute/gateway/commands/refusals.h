// The error replies to requests that are none: unknown names, and numbers of arguments that are
// wrong. In the forms of Redis, as client libraries know them. And those for errors of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compute/gateway/commands/command_table.h"
#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {

// Whether a command of this arity takes so many arguments, its name included.
inline bool IsRightCount(int arity, size_t count) {
  const auto least = static_cast<size_t>(std::abs(arity));
  return arity > 0 ? count == least : count >= least;
}

// The text of the error reply; empty if the names in `arguments` are known, and their number fits.
// `command` is null if there is none of the first name, `subcommand` if the command has none or it
// is not there.
std::string RefusalOf(const Command* command, const Subcommand* subcommand,
                      const std::vector<std::string_view>& arguments);

// The reply to HELP of a command with subcommands.
std::string HelpOn(const Command& command);

// Whether a client that sends this word in the place of a command speaks HTTP: a browser that a web
// page has made send requests to this server. The rest of what it sends may be commands that the
// page has chosen: none of it may be executed.
inline bool IsOfHttp(std::string_view name) {
  return IsWord(name, "host:") || IsWord(name, "post");
}
// Logs that the connection of such a client was ended; few of many such lines. `address`: of the
// client.
void LogHttp(std::string_view address);

// The text of the error reply to a wrong number of arguments. `name`: of a command or a subcommand.
std::string WrongNumberOfArguments(std::string_view name);

// The error of a request that asks for nothing that can be done: the text of the error reply.
inline Error Refusal(std::string_view line) {
  return MakeError(Code::kInvalidArgument, std::string(line));
}

// Bounds what one reply of SCAN and its kin costs.
inline constexpr uint64_t kMostPerScan = 100'000;
inline constexpr std::string_view kInvalidCursor = "ERR invalid cursor";

// The text of the error reply to a value that is longer than any may be.
std::string ValueTooLong(size_t bytes);

// Whether a read that ends so has found that the key is absent. No key that the store does not take
// is there.
template <typename T>
bool IsAbsent(const Result<T>& found) {
  return !found &&
         (found.error().code == Code::kNotFound || found.error().code == Code::kInvalidArgument);
}

// The text of the error reply for an error of the store: "UNREACHABLE memory server 1 …". It begins
// with a word for programs (docs/redis.md).
std::string ErrorLine(const Error& error);

}  // namespace gossamer::gateway
