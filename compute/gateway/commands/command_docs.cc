#include "compute/gateway/commands/command_docs.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>

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
constexpr std::string_view kReadHash =
    "O(log N + M) where N is the number of keys in the store and M the bytes of the hash or set; "
    "one or two round trips to a memory server while inner nodes are cached";
constexpr std::string_view kWholeHash =
    "O(log N + M) where N is the number of keys in the store and M the bytes of the hash or set";
constexpr std::string_view kEachKey =
    "O(M log N) where M is the number of keys in the request and N that in the store";
constexpr std::string_view kDeleteAll = "O(N log N) where N is the number of keys in the store";
constexpr std::string_view kSubscriptions =
    "O(N) where N is the number of subscriptions to channels and patterns at this compute server";
constexpr std::string_view kClients = "O(N) where N is the number of connections";

constexpr std::string_view kShowSubcommands = "Show the subcommands";

// ---- Arguments

constexpr Argument kKey{"key", "key"};
constexpr Argument kPattern{"pattern", "pattern"};
constexpr Argument Text(std::string_view name) { return {name, "string"}; }
constexpr Argument Integer(std::string_view name) { return {name, "integer"}; }
// A word that stands for itself, in any case. `name` is the same in small letters.
constexpr Argument Token(std::string_view token, std::string_view name) {
  return {name, "pure-token", token};
}
// `argument` behind the word that announces it.
constexpr Argument Behind(std::string_view token, Argument argument) {
  argument.token = token;
  return argument;
}
constexpr Argument Optional(Argument argument) {
  argument.is_optional = true;
  return argument;
}
constexpr Argument Many(Argument argument) {
  argument.is_multiple = true;
  return argument;
}
constexpr Argument OneOf(std::string_view name, std::span<const Argument> choices) {
  return {.name = name, .type = "oneof", .arguments = choices};
}
constexpr Argument Block(std::string_view name, std::span<const Argument> parts) {
  return {.name = name, .type = "block", .arguments = parts};
}

constexpr std::span<const Argument> kNone;
constexpr std::array kOneKey{kKey};
constexpr std::array kManyKeys{Many(kKey)};
constexpr std::array kKeyAndValue{kKey, Text("value")};
constexpr std::array kKeyAndPositions{kKey, Integer("start"), Integer("end")};
constexpr std::array kKeyAndDecrement{kKey, Integer("decrement")};
constexpr std::array kKeyAndIncrement{kKey, Integer("increment")};
constexpr std::array kKeyAndFloat{kKey, Argument{"increment", "double"}};
constexpr std::array kSetRange{kKey, Integer("offset"), Text("value")};
constexpr std::array kConditions{Token("NX", "nx"),
                                 Token("XX", "xx"),
                                 Behind("IFEQ", Text("match-value")),
                                 Behind("IFNE", Text("match-value")),
                                 Behind("IFDEQ", Text("match-digest")),
                                 Behind("IFDNE", Text("match-digest"))};
constexpr std::array kTimes{Behind("EX", Integer("seconds")), Behind("PX", Integer("milliseconds")),
                            Behind("EXAT", Argument{"unix-time-seconds", "unix-time"}),
                            Behind("PXAT", Argument{"unix-time-milliseconds", "unix-time"}),
                            Token("KEEPTTL", "keepttl")};
constexpr std::array kSet{kKey, Text("value"), Optional(OneOf("condition", kConditions)),
                          Optional(Token("GET", "get")), Optional(OneOf("expiration", kTimes))};
constexpr std::array kNewTimes{
    Behind("EX", Integer("seconds")), Behind("PX", Integer("milliseconds")),
    Behind("EXAT", Argument{"unix-time-seconds", "unix-time"}),
    Behind("PXAT", Argument{"unix-time-milliseconds", "unix-time"}), Token("PERSIST", "persist")};
constexpr std::array kGetEx{kKey, Optional(OneOf("expiration", kNewTimes))};
constexpr std::array kSetEx{kKey, Integer("seconds"), Text("value")};
constexpr std::array kPSetEx{kKey, Integer("milliseconds"), Text("value")};
constexpr std::array kExpireConditions{Token("NX", "nx"), Token("XX", "xx"), Token("GT", "gt"),
                                       Token("LT", "lt")};
constexpr Argument kExpireCondition = Optional(OneOf("condition", kExpireConditions));
constexpr std::array kExpire{kKey, Integer("seconds"), kExpireCondition};
constexpr std::array kPExpire{kKey, Integer("milliseconds"), kExpireCondition};
constexpr std::array kExpireAt{kKey, Argument{"unix-time-seconds", "unix-time"}, kExpireCondition};
constexpr std::array kPExpireAt{kKey, Argument{"unix-time-milliseconds", "unix-time"},
                                kExpireCondition};
constexpr std::array kUnits{Token("BYTE", "byte"), Token("BIT", "bit")};
constexpr std::array kBitPositions{Integer("start"), Integer("end"),
                                   Optional(OneOf("unit", kUnits))};
constexpr std::array kBitRange{kKey, Optional(Block("range", kBitPositions))};
constexpr std::array kKeyAndOffset{kKey, Integer("offset")};
constexpr std::array kSetBit{kKey, Integer("offset"), Integer("value")};
constexpr std::array kComparisons{
    Behind("IFEQ", Text("match-value")), Behind("IFNE", Text("match-value")),
    Behind("IFDEQ", Text("match-digest")), Behind("IFDNE", Text("match-digest"))};
constexpr std::array kDelEx{kKey, Optional(OneOf("condition", kComparisons))};
constexpr std::array kKeyAndField{kKey, Text("field")};
constexpr std::array kKeyAndFields{kKey, Many(Text("field"))};
constexpr std::array kKeyFieldAndValue{kKey, Text("field"), Text("value")};
constexpr std::array kFieldAndValue{Text("field"), Text("value")};
constexpr std::array kHashPairs{kKey, Many(Block("data", kFieldAndValue))};
constexpr std::array kFieldAndIncrement{kKey, Text("field"), Integer("increment")};
constexpr std::array kFieldAndFloat{kKey, Text("field"), Argument{"increment", "double"}};
constexpr std::array kCountAndValues{Integer("count"), Optional(Token("WITHVALUES", "withvalues"))};
constexpr std::array kRandomFields{kKey, Optional(Block("options", kCountAndValues))};
constexpr std::array kKeyAndMember{kKey, Text("member")};
constexpr std::array kKeyAndMembers{kKey, Many(Text("member"))};
constexpr std::array kKeyAndCount{kKey, Optional(Integer("count"))};
constexpr std::array kScanSet{kKey, Integer("cursor"), Optional(Behind("MATCH", kPattern)),
                              Optional(Behind("COUNT", Integer("count")))};
constexpr std::array kScanHash{kKey, Integer("cursor"), Optional(Behind("MATCH", kPattern)),
                               Optional(Behind("COUNT", Integer("count"))),
                               Optional(Token("NOVALUES", "novalues"))};
constexpr std::array kMemoryUsage{kKey, Optional(Behind("SAMPLES", Integer("count")))};
constexpr std::array kRename{kKey, Argument{"newkey", "key"}};
constexpr std::array kCopy{kKey, Argument{"destination", "key"},
                           Optional(Behind("DB", Integer("destination-db"))),
                           Optional(Token("REPLACE", "replace"))};
constexpr std::array kPairs{Many(Block("key_value", kKeyAndValue))};
constexpr std::array kSyncOrAsync{Token("ASYNC", "async"), Token("SYNC", "sync")};
constexpr std::array kFlush{Optional(OneOf("async", kSyncOrAsync))};
constexpr std::array kScript{Text("script"), Integer("numkeys"), Optional(Many(kKey)),
                             Optional(Many(Text("arg")))};
constexpr std::array kScriptOfDigest{Text("sha1"), Integer("numkeys"), Optional(Many(kKey)),
                                     Optional(Many(Text("arg")))};
constexpr std::array kDigests{Many(Text("sha1"))};
constexpr std::array kSource{Text("script")};
constexpr std::array kModes{Token("YES", "yes"), Token("SYNC", "sync"), Token("NO", "no")};
constexpr std::array kMode{OneOf("mode", kModes)};
constexpr std::array kOnePattern{kPattern};
constexpr std::array kScan{Integer("cursor"), Optional(Behind("MATCH", kPattern)),
                           Optional(Behind("COUNT", Integer("count"))),
                           Optional(Behind("TYPE", Text("type")))};
constexpr std::array kDeleteRange{Optional(Behind("FROM", Text("key"))),
                                  Optional(Behind("TO", Text("key"))),
                                  Optional(Behind("PREFIX", Text("bytes")))};
constexpr std::array kScanRange{
    Optional(Behind("FROM", Text("key"))), Optional(Behind("TO", Text("key"))),
    Optional(Behind("PREFIX", Text("bytes"))), Optional(Behind("LIMIT", Integer("n"))),
    Optional(Token("REV", "rev"))};

constexpr std::array kLogin{Text("username"), Text("password")};
constexpr std::array kAuth{Optional(Text("username")), Text("password")};
constexpr std::array kHelloArguments{Integer("protover"),
                                     Optional(Behind("AUTH", Block("username_password", kLogin))),
                                     Optional(Behind("SETNAME", Text("clientname")))};
constexpr std::array kHello{Optional(Block("arguments", kHelloArguments))};
constexpr std::array kMessage{Text("message")};
constexpr std::array kOptionalMessage{Optional(Text("message"))};
constexpr std::array kChannelMessage{Text("channel"), Text("message")};
constexpr std::array kToken{Text("token")};
constexpr std::array kManyChannels{Many(Text("channel"))};
constexpr std::array kOptionalChannels{Optional(Many(Text("channel")))};
constexpr std::array kPatterns{Many(kPattern)};
constexpr std::array kOptionalPatterns{Optional(Many(kPattern))};
constexpr std::array kOptionalPattern{Optional(kPattern)};
constexpr std::array kDatabase{Integer("index")};
constexpr std::array kWait{Integer("numreplicas"), Integer("timeout")};

constexpr std::array kClientTypes{Token("NORMAL", "normal"), Token("MASTER", "master"),
                                  Token("REPLICA", "replica"), Token("PUBSUB", "pubsub")};
constexpr std::array kYesOrNo{Token("YES", "yes"), Token("NO", "no")};
constexpr std::array kKillFilters{Optional(Behind("ID", Integer("client-id"))),
                                  Optional(Behind("TYPE", OneOf("client-type", kClientTypes))),
                                  Optional(Behind("USER", Text("username"))),
                                  Optional(Behind("ADDR", Text("address"))),
                                  Optional(Behind("LADDR", Text("address"))),
                                  Optional(Behind("SKIPME", OneOf("skipme", kYesOrNo)))};
constexpr std::array kKillForms{Text("address"), Block("new-format", kKillFilters)};
constexpr std::array kClientKill{OneOf("filter", kKillForms)};
constexpr std::array kClientList{Optional(Behind("TYPE", OneOf("client-type", kClientTypes))),
                                 Optional(Many(Behind("ID", Integer("client-id"))))};
constexpr std::array kOnOrOff{Token("ON", "on"), Token("OFF", "off")};
constexpr std::array kNoEvict{OneOf("enabled", kOnOrOff)};
constexpr std::array kReplyModes{Token("ON", "on"), Token("OFF", "off"), Token("SKIP", "skip")};
constexpr std::array kReplyMode{OneOf("action", kReplyModes)};
constexpr std::array kTracking{OneOf("status", kOnOrOff), Optional(Many(Text("option")))};
constexpr std::array kAttributes{Behind("LIB-NAME", Text("libname")),
                                 Behind("LIB-VER", Text("libver"))};
constexpr std::array kSetInfo{OneOf("attr", kAttributes)};
constexpr std::array kConnectionName{Text("connection-name")};

constexpr std::array kCommandNames{Optional(Many(Text("command-name")))};
constexpr std::array kNameFilters{Behind("MODULE", Text("module-name")),
                                  Behind("PATTERN", kPattern)};
constexpr std::array kCommandList{Optional(Behind("FILTERBY", OneOf("filterby", kNameFilters)))};
constexpr std::array kParameters{Many(Text("parameter"))};
constexpr std::array kSetting{Text("parameter"), Text("value")};
constexpr std::array kSettings{Many(Block("parameter_value", kSetting))};
constexpr std::array kSections{Optional(Many(Text("section")))};
constexpr std::array kCount{Optional(Integer("count"))};

// ---- Commands

constexpr std::array kDocs{
    CommandDoc{"acl", "server", "A container for commands about users"},
    CommandDoc{"acl|help", "server", kShowSubcommands},
    CommandDoc{"acl|users", "server", "List the names of all users"},
    CommandDoc{"acl|whoami", "server", "Return the name of this connection's user"},
    CommandDoc{"append", "string", "Append to the value of a key, or set it if the key is absent",
               kKeyAndValue, kWholeValue},
    CommandDoc{"auth", "connection", "Log in, as the user default if none is named", kAuth},
    CommandDoc{"bitcount", "string", "Count the bits of a value that are set, or of a part of it",
               kBitRange, kWholeValue},
    CommandDoc{"client", "connection", "A container for commands about connections"},
    CommandDoc{"client|getname", "connection", "Return the name of this connection"},
    CommandDoc{"client|help", "connection", kShowSubcommands},
    CommandDoc{"client|id", "connection", "Return the number of this connection"},
    CommandDoc{"client|info", "connection", "Describe this connection"},
    CommandDoc{"client|kill", "connection",
               "Close the connection of an address, or all that fit every filter", kClientKill,
               kClients},
    CommandDoc{"client|list", "connection",
               "Describe all connections, those of a type, or those of some numbers", kClientList,
               kClients},
    CommandDoc{"client|no-evict", "connection", "Do nothing: no connection is evicted", kNoEvict},
    CommandDoc{"client|no-touch", "connection", "Do nothing: when a key was last used is not noted",
               kNoEvict},
    CommandDoc{"client|reply", "connection", "Accept ON: every request is answered", kReplyMode},
    CommandDoc{"client|setinfo", "connection", "Do nothing: a library's name is not kept",
               kSetInfo},
    CommandDoc{"client|setname", "connection", "Set the name of this connection", kConnectionName},
    CommandDoc{"client|tracking", "connection", "Accept OFF: no client is told of changes",
               kTracking},
    CommandDoc{"command", "server", "Return the arity, flags and keys of all commands"},
    CommandDoc{"command|count", "server", "Return the number of commands"},
    CommandDoc{"command|docs", "server", "Return texts on all commands, or on some", kCommandNames},
    CommandDoc{"command|help", "server", kShowSubcommands},
    CommandDoc{"command|info", "server",
               "Return the arity, flags and keys of all commands, or of some", kCommandNames},
    CommandDoc{"command|list", "server", "List the names of commands and subcommands",
               kCommandList},
    CommandDoc{"config", "server", "A container for commands about settings"},
    CommandDoc{"config|get", "server", "Return the settings of some names or patterns",
               kParameters},
    CommandDoc{"config|help", "server", kShowSubcommands},
    CommandDoc{"config|set", "server",
               "Set slowlog-log-slower-than and slowlog-max-len of this compute server until it "
               "ends",
               kSettings},
    CommandDoc{"copy", "generic",
               "Give a key the value and the time of another one; REPLACE: also if it is there",
               kCopy, kWholeValue},
    CommandDoc{"dbsize", "server", "Count the keys by a walk through the store", kNone,
               "O(N) where N is the number of keys in the store"},
    CommandDoc{"decr", "string", "Decrement the integer value of a key by one", kOneKey, kOneWrite},
    CommandDoc{"decrby", "string", "Decrement the integer value of a key", kKeyAndDecrement,
               kOneWrite},
    CommandDoc{"del", "generic", "Delete keys; return how many there were", kManyKeys, kEachKey},
    CommandDoc{"delex", "generic",
               "Delete a key; with an option: if its value, or the value's digest, is the given "
               "one or is not",
               kDelEx, kOneWrite},
    CommandDoc{"digest", "string", "Return the XXH3 digest of a value, in hexadecimal digits",
               kOneKey, kWholeValue},
    CommandDoc{"discard", "transactions", "Forget the commands behind MULTI, and watched keys",
               kNone},
    CommandDoc{"echo", "connection", "Return the given string", kMessage},
    CommandDoc{"eval", "scripting", "Run a Lua script on one key, under the key's lock", kScript,
               kOneWrite},
    CommandDoc{"eval_ro", "scripting", "Do what EVAL does, without a write", kScript, kOneWrite},
    CommandDoc{"evalsha", "scripting", "Run a script that this compute server has seen",
               kScriptOfDigest, kOneWrite},
    CommandDoc{"evalsha_ro", "scripting", "Do what EVALSHA does, without a write", kScriptOfDigest,
               kOneWrite},
    CommandDoc{
        "exec", "transactions",
        "Do the commands behind MULTI, those of each key together; null if a watched key has "
        "changed",
        kNone, kEachKey},
    CommandDoc{"exists", "generic", "Count the keys that exist, each as often as it is named",
               kManyKeys, kEachKey},
    CommandDoc{"expire", "generic",
               "Have a key expire after some seconds; NX: if it would not; XX: if it would; GT: if "
               "that is later; LT: if that is earlier",
               kExpire, kOneWrite},
    CommandDoc{"expireat", "generic", "Have a key expire at a time, in seconds, as EXPIRE",
               kExpireAt, kOneWrite},
    CommandDoc{"expiretime", "generic",
               "Return when a key expires, in seconds; -1: never; -2: the key is absent", kOneKey,
               kOneWrite},
    CommandDoc{"flushall", "server", "Delete all keys, one by one; ASYNC and SYNC change nothing",
               kFlush, kDeleteAll},
    CommandDoc{"flushdb", "server", "Delete all keys, one by one; ASYNC and SYNC change nothing",
               kFlush, kDeleteAll},
    CommandDoc{"get", "string", "Get the value of a key", kOneKey, kOneRead},
    CommandDoc{"getbit", "string", "Return a bit of a value", kKeyAndOffset, kWholeValue},
    CommandDoc{"getdel", "string", "Get the value of a key and delete the key", kOneKey, kOneWrite},
    CommandDoc{"getex", "string",
               "Get the value of a key, and have it expire; PERSIST: have it stay", kGetEx,
               kOneWrite},
    CommandDoc{"getrange", "string", "Get the bytes of a value from start to end, both included",
               kKeyAndPositions, kWholeValue},
    CommandDoc{"getset", "string", "Set the value of a key and return its old value", kKeyAndValue,
               kOneWrite},
    CommandDoc{"gossamer.delrange", "gossamer",
               "Delete the keys of a range and return how many; FROM is inside the range, TO is "
               "not; at least one option must be given",
               kDeleteRange,
               "O(M log N) where M is the number of keys in the range and N that in the store"},
    CommandDoc{"gossamer.peer", "gossamer", "A container for commands between compute servers"},
    CommandDoc{"gossamer.peer|help", "gossamer", kShowSubcommands},
    CommandDoc{"gossamer.peer|login", "gossamer", "Begin, with the token of this compute server",
               kToken},
    CommandDoc{"gossamer.peer|publish", "gossamer",
               "Bring a message of a channel; there is no answer", kChannelMessage, kSubscriptions},
    CommandDoc{"gossamer.peer|spublish", "gossamer",
               "Bring a message of a shard channel; there is no answer", kChannelMessage,
               kSubscriptions},
    CommandDoc{
        "gossamer.scan", "gossamer",
        "Return the keys and values of a range in turn, in the order of keys; FROM is inside "
        "the range, TO is not; REV: from the last key on",
        kScanRange,
        "O(log N + M) where N is the number of keys in the store and M that in the reply"},
    CommandDoc{"hdel", "hash", "Delete fields of a hash and return how many there were",
               kKeyAndFields, kWholeHash},
    CommandDoc{"hello", "connection",
               "Describe the server; choose the protocol, 2 or 3; log in; name the connection",
               kHello},
    CommandDoc{"hexists", "hash", "Return whether a hash has a field", kKeyAndField, kReadHash},
    CommandDoc{"hget", "hash", "Get the value of a field of a hash", kKeyAndField, kReadHash},
    CommandDoc{"hgetall", "hash", "Get all fields and values of a hash", kOneKey, kReadHash},
    CommandDoc{"hincrby", "hash", "Increment the integer value of a field of a hash",
               kFieldAndIncrement, kWholeHash},
    CommandDoc{"hincrbyfloat", "hash", "Increment the floating-point value of a field of a hash",
               kFieldAndFloat, kWholeHash},
    CommandDoc{"hkeys", "hash", "Get all fields of a hash", kOneKey, kReadHash},
    CommandDoc{"hlen", "hash", "Count the fields of a hash", kOneKey, kReadHash},
    CommandDoc{"hmget", "hash", "Get the values of fields of a hash", kKeyAndFields, kReadHash},
    CommandDoc{"hmset", "hash", "Set fields of a hash", kHashPairs, kWholeHash},
    CommandDoc{"hrandfield", "hash",
               "Return random fields of a hash (a negative count: each perhaps several times)",
               kRandomFields, kReadHash},
    CommandDoc{"hscan", "hash", "List the fields of a hash, all of them at once", kScanHash,
               kReadHash},
    CommandDoc{"hset", "hash", "Set fields of a hash and return how many are new", kHashPairs,
               kWholeHash},
    CommandDoc{"hsetnx", "hash", "Set a field of a hash if it is absent", kKeyFieldAndValue,
               kWholeHash},
    CommandDoc{"hstrlen", "hash", "Get the length of the value of a field of a hash", kKeyAndField,
               kReadHash},
    CommandDoc{"hvals", "hash", "Get all values of a hash", kOneKey, kReadHash},
    CommandDoc{"incr", "string", "Increment the integer value of a key by one", kOneKey, kOneWrite},
    CommandDoc{"incrby", "string", "Increment the integer value of a key", kKeyAndIncrement,
               kOneWrite},
    CommandDoc{"incrbyfloat", "string", "Increment the floating-point value of a key", kKeyAndFloat,
               kOneWrite},
    CommandDoc{"info", "server", "Return figures of this compute server", kSections},
    CommandDoc{"keys", "generic", "List the keys that match a pattern, in their order", kOnePattern,
               "O(N) where N is the number of keys that begin with what the pattern has before its "
               "first special character"},
    CommandDoc{"memory", "server", "A container for commands about memory"},
    CommandDoc{"memory|help", "server", kShowSubcommands},
    CommandDoc{"memory|usage", "server", "Return the bytes of a key and its value", kMemoryUsage,
               kOneRead},
    CommandDoc{"mget", "string", "Get the values of keys", kManyKeys, kEachKey},
    CommandDoc{"mset", "string", "Set keys one by one: others may see some set before the rest",
               kPairs, kEachKey},
    CommandDoc{
        "msetnx", "string",
        "Set keys if all of them are absent, one by one: others may see some set before the rest",
        kPairs, kEachKey},
    CommandDoc{"multi", "transactions", "Keep the commands that follow for EXEC", kNone},
    CommandDoc{"object", "generic", "A container for commands about what a key is"},
    CommandDoc{"object|encoding", "generic", "Return how Redis would hold the value of a key",
               kOneKey, kOneRead},
    CommandDoc{"object|freq", "generic", "Is refused: uses are not counted", kOneKey},
    CommandDoc{"object|help", "generic", kShowSubcommands},
    CommandDoc{"object|idletime", "generic", "Is refused: uses are not noted", kOneKey},
    CommandDoc{"object|refcount", "generic", "Return 1", kOneKey, kOneRead},
    CommandDoc{"persist", "generic", "Have a key stay that would expire; return whether it would",
               kOneKey, kOneWrite},
    CommandDoc{"pexpire", "generic", "Have a key expire after some milliseconds, as EXPIRE",
               kPExpire, kOneWrite},
    CommandDoc{"pexpireat", "generic", "Have a key expire at a time, in milliseconds, as EXPIRE",
               kPExpireAt, kOneWrite},
    CommandDoc{"pexpiretime", "generic",
               "Return when a key expires, in milliseconds; -1: never; -2: the key is absent",
               kOneKey, kOneWrite},
    CommandDoc{"ping", "connection", "Return PONG, or the given string", kOptionalMessage},
    CommandDoc{"psetex", "string", "Set the value of a key, and have it expire after milliseconds",
               kPSetEx, kOneWrite},
    CommandDoc{"psubscribe", "pubsub", "Listen to the channels that match patterns", kPatterns},
    CommandDoc{
        "pttl", "generic",
        "Return how long a key has still to live, in milliseconds; -1: for ever; -2: the key "
        "is absent",
        kOneKey, kOneWrite},
    CommandDoc{"publish", "pubsub",
               "Send a message to a channel; return how many clients of this compute server get it",
               kChannelMessage, kSubscriptions},
    CommandDoc{"pubsub", "pubsub", "A container for commands about channels"},
    CommandDoc{"pubsub|channels", "pubsub",
               "List the channels that clients of this compute server listen to", kOptionalPattern,
               kSubscriptions},
    CommandDoc{"pubsub|help", "pubsub", kShowSubcommands},
    CommandDoc{"pubsub|numpat", "pubsub",
               "Count the patterns that clients of this compute server listen to"},
    CommandDoc{"pubsub|numsub", "pubsub",
               "Count the clients of this compute server that listen to channels",
               kOptionalChannels},
    CommandDoc{"pubsub|shardchannels", "pubsub",
               "List the shard channels that clients of this compute server listen to",
               kOptionalPattern, kSubscriptions},
    CommandDoc{"pubsub|shardnumsub", "pubsub",
               "Count the clients of this compute server that listen to shard channels",
               kOptionalChannels},
    CommandDoc{"punsubscribe", "pubsub",
               "Listen no more to channels that match patterns; to none if none is given",
               kOptionalPatterns},
    CommandDoc{"quit", "connection", "Close the connection"},
    CommandDoc{"randomkey", "generic", "Return a random key, each about as likely", kNone,
               "O(log N) short scans where N is the number of keys in the store"},
    CommandDoc{"rename", "generic",
               "Give a key another name: others may see both before the old one goes", kRename,
               kWholeValue},
    CommandDoc{"renamenx", "generic", "Do what RENAME does, if the new name is not there", kRename,
               kWholeValue},
    CommandDoc{"reset", "connection",
               "Make this connection like a new one: RESP2, no name, not logged in"},
    CommandDoc{"role", "server", "Return master: there are no replicas"},
    CommandDoc{"sadd", "set", "Add members to a set and return how many are new", kKeyAndMembers,
               kWholeHash},
    CommandDoc{"scan", "generic",
               "List some keys, in their order, and the cursor of the next call; 0 begins and ends",
               kScan,
               "O(log N + M) for every call where N is the number of keys in the store and M is "
               "COUNT; O(N) for all keys"},
    CommandDoc{"scard", "set", "Count the members of a set", kOneKey, kReadHash},
    CommandDoc{"script", "scripting", "A container for commands about scripts"},
    CommandDoc{"script|debug", "scripting", "Is refused", kMode},
    CommandDoc{"script|exists", "scripting", "Say which scripts this compute server has", kDigests},
    CommandDoc{"script|flush", "scripting", "Forget the scripts of this compute server", kFlush},
    CommandDoc{"script|help", "scripting", kShowSubcommands},
    CommandDoc{"script|kill", "scripting", "Say that no script runs", kNone},
    CommandDoc{"script|load", "scripting", "Keep a script for EVALSHA, and return its digest",
               kSource},
    CommandDoc{"select", "connection", "Accept 0, which is the only database", kDatabase},
    CommandDoc{"set", "string",
               "Set the value of a key; NX: if it is absent; XX: if it exists; GET: return the old "
               "value; EX, PX, EXAT, PXAT: when it expires; KEEPTTL: as before",
               kSet, kOneWrite},
    CommandDoc{"setbit", "string", "Set or clear a bit of a value and return what it was", kSetBit,
               kWholeValue},
    CommandDoc{"setex", "string", "Set the value of a key, and have it expire after seconds",
               kSetEx, kOneWrite},
    CommandDoc{"setnx", "string", "Set the value of a key if it is absent", kKeyAndValue,
               kOneWrite},
    CommandDoc{"setrange", "string",
               "Overwrite the value of a key from an offset on; zeros fill up what is missing "
               "before it",
               kSetRange, kWholeValue},
    CommandDoc{"sismember", "set", "Return whether a set has a member", kKeyAndMember, kReadHash},
    CommandDoc{"slowlog", "server", "A container for commands about the log of slow requests"},
    CommandDoc{"slowlog|get", "server", "Return the newest entries, 10 unless told; -1: all",
               kCount, "O(N) where N is the number of entries returned"},
    CommandDoc{"slowlog|help", "server", kShowSubcommands},
    CommandDoc{"slowlog|len", "server", "Return the number of entries"},
    CommandDoc{"slowlog|reset", "server", "Delete all entries", kNone,
               "O(N) where N is the number of entries"},
    CommandDoc{"smembers", "set", "Get all members of a set", kOneKey, kReadHash},
    CommandDoc{"smismember", "set", "Return of each of some members whether a set has it",
               kKeyAndMembers, kReadHash},
    CommandDoc{"spop", "set", "Remove random members of a set and return them", kKeyAndCount,
               kWholeHash},
    CommandDoc{"spublish", "pubsub",
               "Send a message to a shard channel, which is a channel of a namespace of its own",
               kChannelMessage, kSubscriptions},
    CommandDoc{"srandmember", "set",
               "Return random members of a set (a negative count: each perhaps several times)",
               kKeyAndCount, kReadHash},
    CommandDoc{"srem", "set", "Remove members of a set and return how many there were",
               kKeyAndMembers, kWholeHash},
    CommandDoc{"sscan", "set", "List the members of a set, all of them at once", kScanSet,
               kReadHash},
    CommandDoc{"ssubscribe", "pubsub", "Listen to shard channels", kManyChannels},
    CommandDoc{"strlen", "string", "Get the length of the value of a key", kOneKey, kWholeValue},
    CommandDoc{"subscribe", "pubsub", "Listen to channels", kManyChannels},
    CommandDoc{"substr", "string", "Do what GETRANGE does", kKeyAndPositions, kWholeValue},
    CommandDoc{"sunsubscribe", "pubsub",
               "Listen no more to shard channels; to none if none is given", kOptionalChannels},
    CommandDoc{"time", "server", "Return the time in seconds, and the microseconds beside them"},
    CommandDoc{"touch", "generic", "Do what EXISTS does", kManyKeys, kEachKey},
    CommandDoc{"ttl", "generic",
               "Return how long a key has still to live, in seconds; -1: for ever; -2: the key is "
               "absent",
               kOneKey, kOneWrite},
    CommandDoc{"type", "generic", "Return string, or none if the key is absent", kOneKey, kOneRead},
    CommandDoc{"unlink", "generic", "Do what DEL does", kManyKeys, kEachKey},
    CommandDoc{"unsubscribe", "pubsub", "Listen no more to channels; to none if none is given",
               kOptionalChannels},
    CommandDoc{"unwatch", "transactions", "Forget watched keys", kNone},
    CommandDoc{"wait", "generic", "Return 0 at once: there are no replicas", kWait},
    CommandDoc{"watch", "transactions",
               "Have the next EXEC do nothing if one of the keys changes before", kManyKeys,
               kEachKey},
};
static_assert(std::ranges::is_sorted(kDocs, {}, &CommandDoc::name));

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

void WriteArguments(std::span<const Argument> arguments, ReplyWriter& reply) {
  reply.Array(arguments.size());
  for (const Argument& one : arguments) {
    const bool is_key = one.type == "key";
    const bool has_token = !one.token.empty();
    const size_t flags = size_t{one.is_optional} + size_t{one.is_multiple};
    const bool has_arguments = !one.arguments.empty();
    reply.Map(2 + size_t{is_key} + size_t{has_token} + (flags != 0 ? 1 : 0) +
              size_t{has_arguments});
    reply.Pair("name", one.name);
    reply.Pair("type", one.type);
    if (is_key) {
      reply.Bulk("key_spec_index");
      reply.Integer(0);  // all keys of a command are of one kind
    }
    if (has_token) reply.Pair("token", one.token);
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
  reply.Pair("summary", doc.summary);
  reply.Pair("since", kSince);
  reply.Pair("group", doc.group);
  if (has_complexity) reply.Pair("complexity", doc.complexity);
  if (has_arguments) {
    reply.Bulk("arguments");
    WriteArguments(doc.arguments, reply);
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
      if (one.name.find('|') == std::string_view::npos) docs.push_back(&one);
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
