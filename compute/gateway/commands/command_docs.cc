#include "compute/gateway/commands/command_docs.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>

#include "compute/gateway/commands/argument_notation.h"
#include "compute/gateway/commands/command_table.h"

namespace gossamer::gateway {
namespace {

// The version that has brought these commands.
constexpr std::string_view kSince = "0.1.0";

constexpr std::string_view kOneRead =
    "O(log N) where N is the number of keys in the store; one or two round trips to a memory "
    "server while inner nodes are cached";
constexpr std::string_view kOneWrite = "O(log N) where N is the number of keys in the store";
constexpr std::string_view kWholeValue =
    "O(log N + M) where N is the number of keys in the store and M the length of the whole value";
constexpr std::string_view kEachKey =
    "O(M log N) where M is the number of keys in the request and N that in the store";
constexpr std::string_view kDeleteAll = "O(N log N) where N is the number of keys in the store";
constexpr std::string_view kClients = "O(N) where N is the number of connections";

constexpr std::string_view kShowSubcommands = "Show the subcommands";

constexpr std::array kDocs{
    CommandDoc{"acl", "server", "A container for commands about users"},
    CommandDoc{"acl|help", "server", kShowSubcommands},
    CommandDoc{"acl|users", "server", "List the names of all users"},
    CommandDoc{"acl|whoami", "server", "Return the name of this connection's user"},
    CommandDoc{"append", "string", "Append to the value of a key, or set it if the key is absent",
               "key value", kWholeValue},
    CommandDoc{"auth", "connection", "Log in, as the user default if none is named",
               "[username] password"},
    CommandDoc{"client", "connection", "A container for commands about connections"},
    CommandDoc{"client|getname", "connection", "Return the name of this connection"},
    CommandDoc{"client|help", "connection", kShowSubcommands},
    CommandDoc{"client|id", "connection", "Return the number of this connection"},
    CommandDoc{"client|info", "connection", "Describe this connection"},
    CommandDoc{"client|kill", "connection",
               "Close the connection of an address, or all that fit every filter",
               "<filter=address | <new-format=[ID client-id:integer] "
               "[TYPE <client-type=NORMAL | MASTER | REPLICA | PUBSUB>] [USER username] "
               "[ADDR address] [LADDR address] [SKIPME <skipme=YES | NO>]>>",
               kClients},
    CommandDoc{"client|list", "connection",
               "Describe all connections, those of a type, or those of some numbers",
               "[TYPE <client-type=NORMAL | MASTER | REPLICA | PUBSUB>] "
               "[ID client-id:integer...]",
               kClients},
    CommandDoc{"client|no-evict", "connection", "Do nothing: no connection is evicted",
               "<enabled=ON | OFF>"},
    CommandDoc{"client|setinfo", "connection", "Do nothing: a library's name is not kept",
               "<attr=LIB-NAME libname | LIB-VER libver>"},
    CommandDoc{"client|setname", "connection", "Set the name of this connection",
               "connection-name"},
    CommandDoc{"command", "server", "Return the arity, flags and keys of all commands"},
    CommandDoc{"command|count", "server", "Return the number of commands"},
    CommandDoc{"command|docs", "server", "Return texts on all commands, or on some",
               "[command-name...]"},
    CommandDoc{"command|help", "server", kShowSubcommands},
    CommandDoc{"command|info", "server",
               "Return the arity, flags and keys of all commands, or of some", "[command-name...]"},
    CommandDoc{"command|list", "server", "List the names of commands and subcommands",
               "[FILTERBY <filterby=MODULE module-name | PATTERN pattern>]"},
    CommandDoc{"config", "server", "A container for commands about settings"},
    CommandDoc{"config|get", "server", "Return the settings of some names or patterns",
               "parameter..."},
    CommandDoc{"config|help", "server", kShowSubcommands},
    CommandDoc{"config|set", "server",
               "Set slowlog-log-slower-than and slowlog-max-len of this compute server until it "
               "ends",
               "<parameter_value=parameter value>..."},
    CommandDoc{"dbsize", "server", "Count the keys by a walk through the store", "",
               "O(N) where N is the number of keys in the store"},
    CommandDoc{"decr", "string", "Decrement the integer value of a key by one", "key", kOneWrite},
    CommandDoc{"decrby", "string", "Decrement the integer value of a key", "key decrement:integer",
               kOneWrite},
    CommandDoc{"del", "generic", "Delete keys; return how many there were", "key...", kEachKey},
    CommandDoc{"echo", "connection", "Return the given string", "message"},
    CommandDoc{"exists", "generic", "Count the keys that exist, each as often as it is named",
               "key...", kEachKey},
    CommandDoc{"expiretime", "generic", "Return -1, as keys do not expire; -2 if the key is absent",
               "key", kOneRead},
    CommandDoc{"flushall", "server", "Delete all keys, one by one; ASYNC and SYNC change nothing",
               "[async=ASYNC | SYNC]", kDeleteAll},
    CommandDoc{"flushdb", "server", "Delete all keys, one by one; ASYNC and SYNC change nothing",
               "[async=ASYNC | SYNC]", kDeleteAll},
    CommandDoc{"get", "string", "Get the value of a key", "key", kOneRead},
    CommandDoc{"getdel", "string", "Get the value of a key and delete the key", "key", kOneWrite},
    CommandDoc{"getrange", "string", "Get the bytes of a value from start to end, both included",
               "key start:integer end:integer", kWholeValue},
    CommandDoc{"getset", "string", "Set the value of a key and return its old value", "key value",
               kOneWrite},
    CommandDoc{"gossamer.delrange", "gossamer",
               "Delete the keys of a range and return how many; FROM is inside the range, TO is "
               "not; at least one option must be given",
               "[FROM key:string] [TO key:string] [PREFIX bytes]",
               "O(M log N) where M is the number of keys in the range and N that in the store"},
    CommandDoc{
        "gossamer.scan", "gossamer",
        "Return the keys and values of a range in turn, in the order of keys; FROM is inside "
        "the range, TO is not; REV: from the last key on",
        "[FROM key:string] [TO key:string] [PREFIX bytes] [LIMIT n:integer] [REV]",
        "O(log N + M) where N is the number of keys in the store and M that in the reply"},
    CommandDoc{"hello", "connection",
               "Describe the server; choose the protocol, 2 or 3; log in; name the connection",
               "[arguments=protover:integer [AUTH <username_password=username password>] "
               "[SETNAME clientname]]"},
    CommandDoc{"incr", "string", "Increment the integer value of a key by one", "key", kOneWrite},
    CommandDoc{"incrby", "string", "Increment the integer value of a key", "key increment:integer",
               kOneWrite},
    CommandDoc{"incrbyfloat", "string", "Increment the floating-point value of a key",
               "key increment:double", kOneWrite},
    CommandDoc{"info", "server", "Return figures of this compute server", "[section...]"},
    CommandDoc{"keys", "generic", "List the keys that match a pattern, in their order", "pattern",
               "O(N) where N is the number of keys that begin with what the pattern has before its "
               "first special character"},
    CommandDoc{"mget", "string", "Get the values of keys", "key...", kEachKey},
    CommandDoc{"mset", "string", "Set keys one by one: others may see some set before the rest",
               "<key_value=key value>...", kEachKey},
    CommandDoc{"persist", "generic", "Return 0, as keys do not expire", "key", kOneRead},
    CommandDoc{"pexpiretime", "generic",
               "Return -1, as keys do not expire; -2 if the key is absent", "key", kOneRead},
    CommandDoc{"ping", "connection", "Return PONG, or the given string", "[message]"},
    CommandDoc{"pttl", "generic", "Return -1, as keys do not expire; -2 if the key is absent",
               "key", kOneRead},
    CommandDoc{"quit", "connection", "Close the connection"},
    CommandDoc{"randomkey", "generic", "Return a random key, each about as likely", "",
               "O(log N) short scans where N is the number of keys in the store"},
    CommandDoc{"reset", "connection",
               "Make this connection like a new one: RESP2, no name, not logged in"},
    CommandDoc{"role", "server", "Return master: there are no replicas"},
    CommandDoc{"scan", "generic",
               "List some keys, in their order, and the cursor of the next call; 0 begins and ends",
               "cursor:integer [MATCH pattern] [COUNT count:integer] [TYPE type]",
               "O(log N + M) for every call where N is the number of keys in the store and M is "
               "COUNT; O(N) for all keys"},
    CommandDoc{"select", "connection", "Accept 0, which is the only database", "index:integer"},
    CommandDoc{"set", "string",
               "Set the value of a key; NX: if it is absent; XX: if it exists; GET: return the old "
               "value",
               "key value [condition=NX | XX] [GET]", kOneWrite},
    CommandDoc{"setnx", "string", "Set the value of a key if it is absent", "key value", kOneWrite},
    CommandDoc{"setrange", "string",
               "Overwrite the value of a key from an offset on; zeros fill up what is missing "
               "before it",
               "key offset:integer value", kWholeValue},
    CommandDoc{"slowlog", "server", "A container for commands about the log of slow requests"},
    CommandDoc{"slowlog|get", "server", "Return the newest entries, 10 unless told; -1: all",
               "[count:integer]", "O(N) where N is the number of entries returned"},
    CommandDoc{"slowlog|help", "server", kShowSubcommands},
    CommandDoc{"slowlog|len", "server", "Return the number of entries"},
    CommandDoc{"slowlog|reset", "server", "Delete all entries", "",
               "O(N) where N is the number of entries"},
    CommandDoc{"strlen", "string", "Get the length of the value of a key", "key", kWholeValue},
    CommandDoc{"substr", "string", "Do what GETRANGE does", "key start:integer end:integer",
               kWholeValue},
    CommandDoc{"time", "server", "Return the time in seconds, and the microseconds beside them"},
    CommandDoc{"touch", "generic", "Do what EXISTS does", "key...", kEachKey},
    CommandDoc{"ttl", "generic", "Return -1, as keys do not expire; -2 if the key is absent", "key",
               kOneRead},
    CommandDoc{"type", "generic", "Return string, or none if the key is absent", "key", kOneRead},
    CommandDoc{"unlink", "generic", "Do what DEL does", "key...", kEachKey},
    CommandDoc{"wait", "generic", "Return 0 at once: there are no replicas",
               "numreplicas:integer timeout:integer"},
};
static_assert(std::ranges::is_sorted(kDocs, {}, &CommandDoc::name));

bool IsOfSubcommand(const CommandDoc& doc) { return doc.name.find('|') != std::string_view::npos; }

// They are directly behind the command's own.
std::span<const CommandDoc> SubcommandDocs(const CommandDoc& command) {
  const auto first = kDocs.begin() + (&command - kDocs.data()) + 1;
  const auto end = std::find_if_not(first, kDocs.end(), [&command](const CommandDoc& one) {
    return one.name.starts_with(command.name) && one.name[command.name.size()] == '|';
  });
  return {first, end};
}

// Null if there is no command or, as client|list, subcommand of this name, in any case.
const CommandDoc* FindDoc(std::string_view name) {
  const size_t bar = name.find('|');
  const Command* const command = FindCommand(name.substr(0, bar));
  if (command == nullptr) return nullptr;
  std::string_view known_as = command->name;
  if (bar != std::string_view::npos) {
    const Subcommand* const subcommand = FindSubcommand(*command, name.substr(bar + 1));
    if (subcommand == nullptr) return nullptr;
    known_as = subcommand->name;
  }
  return &*std::ranges::lower_bound(kDocs, known_as, {}, &CommandDoc::name);
}

void WriteText(std::string_view field, std::string_view text, ReplyWriter& reply) {
  reply.Bulk(field);
  reply.Bulk(text);
}

void WriteArguments(const std::vector<Argument>& arguments, ReplyWriter& reply) {
  reply.Array(arguments.size());
  for (const Argument& one : arguments) {
    const bool is_key = one.type == "key";
    const bool has_token = !one.token.empty();
    const size_t flags = size_t{one.is_optional} + size_t{one.is_multiple};
    const bool has_arguments = !one.arguments.empty();
    reply.Map(2 + size_t{is_key} + size_t{has_token} + (flags != 0 ? 1 : 0) +
              size_t{has_arguments});
    WriteText("name", one.name, reply);
    WriteText("type", one.type, reply);
    if (is_key) {
      reply.Bulk("key_spec_index");
      reply.Integer(0);  // all keys of a command are of one kind
    }
    if (has_token) WriteText("token", one.token, reply);
    if (flags != 0) {
      reply.Bulk("flags");
      reply.Set(flags);
      if (one.is_optional) reply.Simple("optional");
      if (one.is_multiple) reply.Simple("multiple");
    }
    if (has_arguments) {
      reply.Bulk("arguments");
      WriteArguments(one.arguments, reply);
    }
  }
}

void WriteDoc(const CommandDoc& doc, ReplyWriter& reply) {
  const std::span<const CommandDoc> subcommands = SubcommandDocs(doc);
  const bool has_complexity = !doc.complexity.empty();
  const bool has_arguments = !doc.arguments.empty();
  const bool has_subcommands = !subcommands.empty();
  reply.Bulk(doc.name);
  reply.Map(3 + size_t{has_complexity} + size_t{has_arguments} + size_t{has_subcommands});
  WriteText("summary", doc.summary, reply);
  WriteText("since", kSince, reply);
  WriteText("group", doc.group, reply);
  if (has_complexity) WriteText("complexity", doc.complexity, reply);
  if (has_arguments) {
    reply.Bulk("arguments");
    WriteArguments(ParseArguments(doc.arguments), reply);
  }
  if (has_subcommands) {
    reply.Bulk("subcommands");
    reply.Map(subcommands.size());
    for (const CommandDoc& one : subcommands) WriteDoc(one, reply);
  }
}

}  // namespace

std::span<const CommandDoc> CommandDocs() { return kDocs; }

void AnswerCommandDocs(const std::vector<std::string_view>& arguments, ReplyWriter& reply) {
  std::vector<const CommandDoc*> docs;
  if (arguments.size() == 2) {
    for (const CommandDoc& one : kDocs) {
      if (!IsOfSubcommand(one)) docs.push_back(&one);
    }
  }
  // Each at most once: otherwise a request of one name a million times has a reply of gigabytes.
  std::bitset<kDocs.size()> is_in;
  for (size_t i = 2; i < arguments.size(); ++i) {
    const CommandDoc* const doc = FindDoc(arguments[i]);
    if (doc == nullptr || is_in[static_cast<size_t>(doc - kDocs.data())]) continue;
    is_in.set(static_cast<size_t>(doc - kDocs.data()));
    docs.push_back(doc);
  }
  reply.Map(docs.size());
  for (const CommandDoc* const one : docs) WriteDoc(*one, reply);
}

}  // namespace gossamer::gateway
