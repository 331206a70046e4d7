// The commands of the Redis protocol that the gateway answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace gossamer::gateway {

enum class CommandId : uint8_t {
  kAcl,
  kAppend,
  kAuth,
  kBitCount,
  kClient,
  kCommand,
  kConfig,
  kCopy,
  kDbSize,
  kDecr,
  kDecrBy,
  kDel,
  kDelEx,
  kDigest,
  kDiscard,
  kEcho,
  kEval,
  kExec,
  kExists,
  kExpire,
  kFlushDb,
  kGet,
  kGetBit,
  kGetDel,
  kGetEx,
  kGetRange,
  kGetSet,
  kDeleteRange,
  kScanRange,
  kHDel,
  kHello,
  kHExists,
  kHGet,
  kHGetAll,
  kHIncrBy,
  kHIncrByFloat,
  kHKeys,
  kHLen,
  kHMget,
  kHRandField,
  kHScan,
  kHSet,
  kHSetnx,
  kHStrlen,
  kHVals,
  kIncr,
  kIncrBy,
  kIncrByFloat,
  kInfo,
  kKeys,
  kMemory,
  kMget,
  kMset,
  kMsetnx,
  kMulti,
  kObject,
  kPeer,
  kPersist,
  kPing,
  kPublish,
  kPubSub,
  kQuit,
  kRandomKey,
  kRename,
  kRenamenx,
  kReset,
  kRole,
  kSAdd,
  kSCard,
  kScan,
  kScript,
  kSelect,
  kSet,
  kSetBit,
  kSetEx,
  kSetRange,
  kSetnx,
  kSIsMember,
  kSlowlog,
  kSMembers,
  kSMIsMember,
  kSPop,
  kSRandMember,
  kSRem,
  kSScan,
  kStrlen,
  kSubscribe,
  kTime,
  kTtl,
  kType,
  kUnsubscribe,
  kUnwatch,
  kWait,
  kWatch,
};

// How a command runs: with others of its kind, or by itself.
enum class CommandKind : uint8_t {
  kRead,         // GET and its kin: together with other reads
  kLook,         // another read, of one key: likewise
  kPut,          // together with other puts
  kDelete,       // together with other deletes
  kChange,       // a read-modify-write: together with others of its key
  kAnswer,       // at once: its answer depends on the request alone
  kState,        // at once, and by itself: it uses or changes the state of the connection
  kWalk,         // by itself: it reads many keys, or writes several, one after the other
  kScript,       // a script: a change of its key, or nothing of the store
  kTransaction,  // begins or ends one, or is for the next one
};

struct Command {
  std::string_view name;  // lower case
  CommandId id;
  CommandKind kind;
  int arity;  // arguments with the name; negative: at least so many. As in Redis's COMMAND
  bool is_write;
  // The first and the last argument that is a key, and the step; 0: none. As in Redis's COMMAND.
  int first_key, last_key, key_step;
};

// In alphabetical order; at most kMostCommands.
std::span<const Command> Commands();
inline constexpr size_t kMostCommands = 128;
inline size_t NumberOf(const Command& command) {
  return static_cast<size_t>(&command - Commands().data());
}
// Null if there is none of this name, in any case.
const Command* FindCommand(std::string_view name);

// The first argument of some commands says which of their subcommands is meant.
struct Subcommand {
  std::string_view name;  // as Redis writes it: client|list
  int arity;              // as that of a command
  constexpr std::string_view word() const { return name.substr(name.find('|') + 1); }
  constexpr bool IsOf(const Command& command) const {
    return name.substr(0, name.find('|')) == command.name;
  }
};

// In alphabetical order.
std::span<const Subcommand> Subcommands();
constexpr bool HasSubcommands(const Command& command) {
  switch (command.id) {
    case CommandId::kAcl:
    case CommandId::kClient:
    case CommandId::kCommand:
    case CommandId::kConfig:
    case CommandId::kMemory:
    case CommandId::kObject:
    case CommandId::kPeer:
    case CommandId::kPubSub:
    case CommandId::kScript:
    case CommandId::kSlowlog: return true;
    default: return false;
  }
}
// Every command with subcommands has this one.
constexpr bool IsHelp(const Subcommand& subcommand) { return subcommand.name.ends_with("|help"); }
// Null if `command` has none of this name, in any case.
const Subcommand* FindSubcommand(const Command& command, std::string_view word);

}  // namespace gossamer::gateway
