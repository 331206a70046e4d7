#include "compute/gateway/commands/command_table.h"

#include <algorithm>
#include <array>

#include "compute/gateway/protocol/words.h"
#include "proto/key.h"

namespace gossamer::gateway {
namespace {

using Id = CommandId;
using Kind = CommandKind;

constexpr std::array kCommands{
    Command{"acl", Id::kAcl, Kind::kState, -2, false, 0, 0, 0},
    Command{"append", Id::kAppend, Kind::kChange, 3, true, 1, 1, 1},
    Command{"auth", Id::kAuth, Kind::kState, -2, false, 0, 0, 0},
    Command{"bitcount", Id::kBitCount, Kind::kLook, -2, false, 1, 1, 1},
    Command{"client", Id::kClient, Kind::kState, -2, false, 0, 0, 0},
    Command{"command", Id::kCommand, Kind::kAnswer, -1, false, 0, 0, 0},
    Command{"config", Id::kConfig, Kind::kAnswer, -2, false, 0, 0, 0},
    Command{"copy", Id::kCopy, Kind::kWalk, -3, true, 1, 2, 1},
    Command{"dbsize", Id::kDbSize, Kind::kWalk, 1, false, 0, 0, 0},
    Command{"decr", Id::kDecr, Kind::kChange, 2, true, 1, 1, 1},
    Command{"decrby", Id::kDecrBy, Kind::kChange, 3, true, 1, 1, 1},
    Command{"del", Id::kDel, Kind::kDelete, -2, true, 1, -1, 1},
    Command{"delex", Id::kDelEx, Kind::kChange, -2, true, 1, 1, 1},
    Command{"digest", Id::kDigest, Kind::kLook, 2, false, 1, 1, 1},
    Command{"discard", Id::kDiscard, Kind::kTransaction, 1, false, 0, 0, 0},
    Command{"echo", Id::kEcho, Kind::kAnswer, 2, false, 0, 0, 0},
    Command{"eval", Id::kEval, Kind::kScript, -3, true, 0, 0, 0},
    Command{"eval_ro", Id::kEval, Kind::kScript, -3, false, 0, 0, 0},
    Command{"evalsha", Id::kEval, Kind::kScript, -3, true, 0, 0, 0},
    Command{"evalsha_ro", Id::kEval, Kind::kScript, -3, false, 0, 0, 0},
    Command{"exec", Id::kExec, Kind::kTransaction, 1, false, 0, 0, 0},
    Command{"exists", Id::kExists, Kind::kRead, -2, false, 1, -1, 1},
    Command{"expire", Id::kExpire, Kind::kChange, -3, true, 1, 1, 1},
    Command{"expireat", Id::kExpire, Kind::kChange, -3, true, 1, 1, 1},
    Command{"expiretime", Id::kTtl, Kind::kLook, 2, false, 1, 1, 1},
    Command{"flushall", Id::kFlushDb, Kind::kWalk, -1, true, 0, 0, 0},
    Command{"flushdb", Id::kFlushDb, Kind::kWalk, -1, true, 0, 0, 0},
    Command{"get", Id::kGet, Kind::kRead, 2, false, 1, 1, 1},
    Command{"getbit", Id::kGetBit, Kind::kLook, 3, false, 1, 1, 1},
    Command{"getdel", Id::kGetDel, Kind::kChange, 2, true, 1, 1, 1},
    Command{"getex", Id::kGetEx, Kind::kChange, -2, true, 1, 1, 1},
    Command{"getrange", Id::kGetRange, Kind::kLook, 4, false, 1, 1, 1},
    Command{"getset", Id::kGetSet, Kind::kChange, 3, true, 1, 1, 1},
    Command{"gossamer.delrange", Id::kDeleteRange, Kind::kWalk, -3, true, 0, 0, 0},
    Command{"gossamer.peer", Id::kPeer, Kind::kState, -2, false, 0, 0, 0},
    Command{"gossamer.scan", Id::kScanRange, Kind::kWalk, -1, false, 0, 0, 0},
    Command{"hdel", Id::kHDel, Kind::kChange, -3, true, 1, 1, 1},
    Command{"hello", Id::kHello, Kind::kState, -1, false, 0, 0, 0},
    Command{"hexists", Id::kHExists, Kind::kLook, 3, false, 1, 1, 1},
    Command{"hget", Id::kHGet, Kind::kLook, 3, false, 1, 1, 1},
    Command{"hgetall", Id::kHGetAll, Kind::kLook, 2, false, 1, 1, 1},
    Command{"hincrby", Id::kHIncrBy, Kind::kChange, 4, true, 1, 1, 1},
    Command{"hincrbyfloat", Id::kHIncrByFloat, Kind::kChange, 4, true, 1, 1, 1},
    Command{"hkeys", Id::kHKeys, Kind::kLook, 2, false, 1, 1, 1},
    Command{"hlen", Id::kHLen, Kind::kLook, 2, false, 1, 1, 1},
    Command{"hmget", Id::kHMget, Kind::kLook, -3, false, 1, 1, 1},
    Command{"hmset", Id::kHSet, Kind::kChange, -4, true, 1, 1, 1},
    Command{"hrandfield", Id::kHRandField, Kind::kLook, -2, false, 1, 1, 1},
    Command{"hscan", Id::kHScan, Kind::kLook, -3, false, 1, 1, 1},
    Command{"hset", Id::kHSet, Kind::kChange, -4, true, 1, 1, 1},
    Command{"hsetnx", Id::kHSetnx, Kind::kChange, 4, true, 1, 1, 1},
    Command{"hstrlen", Id::kHStrlen, Kind::kLook, 3, false, 1, 1, 1},
    Command{"hvals", Id::kHVals, Kind::kLook, 2, false, 1, 1, 1},
    Command{"incr", Id::kIncr, Kind::kChange, 2, true, 1, 1, 1},
    Command{"incrby", Id::kIncrBy, Kind::kChange, 3, true, 1, 1, 1},
    Command{"incrbyfloat", Id::kIncrByFloat, Kind::kChange, 3, true, 1, 1, 1},
    Command{"info", Id::kInfo, Kind::kState, -1, false, 0, 0, 0},
    Command{"keys", Id::kKeys, Kind::kWalk, 2, false, 0, 0, 0},
    Command{"memory", Id::kMemory, Kind::kLook, -2, false, 0, 0, 0},
    Command{"mget", Id::kMget, Kind::kRead, -2, false, 1, -1, 1},
    Command{"mset", Id::kMset, Kind::kPut, -3, true, 1, -1, 2},
    Command{"msetnx", Id::kMsetnx, Kind::kWalk, -3, true, 1, -1, 2},
    Command{"multi", Id::kMulti, Kind::kTransaction, 1, false, 0, 0, 0},
    Command{"object", Id::kObject, Kind::kLook, -2, false, 0, 0, 0},
    Command{"persist", Id::kPersist, Kind::kChange, 2, true, 1, 1, 1},
    Command{"pexpire", Id::kExpire, Kind::kChange, -3, true, 1, 1, 1},
    Command{"pexpireat", Id::kExpire, Kind::kChange, -3, true, 1, 1, 1},
    Command{"pexpiretime", Id::kTtl, Kind::kLook, 2, false, 1, 1, 1},
    Command{"ping", Id::kPing, Kind::kAnswer, -1, false, 0, 0, 0},
    Command{"psetex", Id::kSetEx, Kind::kPut, 4, true, 1, 1, 1},
    Command{"psubscribe", Id::kSubscribe, Kind::kState, -2, false, 0, 0, 0},
    Command{"pttl", Id::kTtl, Kind::kLook, 2, false, 1, 1, 1},
    Command{"publish", Id::kPublish, Kind::kState, 3, false, 0, 0, 0},
    Command{"pubsub", Id::kPubSub, Kind::kState, -2, false, 0, 0, 0},
    Command{"punsubscribe", Id::kUnsubscribe, Kind::kState, -1, false, 0, 0, 0},
    Command{"quit", Id::kQuit, Kind::kState, -1, false, 0, 0, 0},
    Command{"randomkey", Id::kRandomKey, Kind::kWalk, 1, false, 0, 0, 0},
    Command{"rename", Id::kRename, Kind::kWalk, 3, true, 1, 2, 1},
    Command{"renamenx", Id::kRenamenx, Kind::kWalk, 3, true, 1, 2, 1},
    Command{"reset", Id::kReset, Kind::kState, 1, false, 0, 0, 0},
    Command{"role", Id::kRole, Kind::kAnswer, 1, false, 0, 0, 0},
    Command{"sadd", Id::kSAdd, Kind::kChange, -3, true, 1, 1, 1},
    Command{"scan", Id::kScan, Kind::kWalk, -2, false, 0, 0, 0},
    Command{"scard", Id::kSCard, Kind::kLook, 2, false, 1, 1, 1},
    Command{"script", Id::kScript, Kind::kAnswer, -2, false, 0, 0, 0},
    Command{"select", Id::kSelect, Kind::kAnswer, 2, false, 0, 0, 0},
    Command{"set", Id::kSet, Kind::kPut, -3, true, 1, 1, 1},
    Command{"setbit", Id::kSetBit, Kind::kChange, 4, true, 1, 1, 1},
    Command{"setex", Id::kSetEx, Kind::kPut, 4, true, 1, 1, 1},
    Command{"setnx", Id::kSetnx, Kind::kChange, 3, true, 1, 1, 1},
    Command{"setrange", Id::kSetRange, Kind::kChange, 4, true, 1, 1, 1},
    Command{"sismember", Id::kSIsMember, Kind::kLook, 3, false, 1, 1, 1},
    Command{"slowlog", Id::kSlowlog, Kind::kState, -2, false, 0, 0, 0},
    Command{"smembers", Id::kSMembers, Kind::kLook, 2, false, 1, 1, 1},
    Command{"smismember", Id::kSMIsMember, Kind::kLook, -3, false, 1, 1, 1},
    Command{"spop", Id::kSPop, Kind::kChange, -2, true, 1, 1, 1},
    Command{"spublish", Id::kPublish, Kind::kState, 3, false, 0, 0, 0},
    Command{"srandmember", Id::kSRandMember, Kind::kLook, -2, false, 1, 1, 1},
    Command{"srem", Id::kSRem, Kind::kChange, -3, true, 1, 1, 1},
    Command{"sscan", Id::kSScan, Kind::kLook, -3, false, 1, 1, 1},
    Command{"ssubscribe", Id::kSubscribe, Kind::kState, -2, false, 0, 0, 0},
    Command{"strlen", Id::kStrlen, Kind::kLook, 2, false, 1, 1, 1},
    Command{"subscribe", Id::kSubscribe, Kind::kState, -2, false, 0, 0, 0},
    Command{"substr", Id::kGetRange, Kind::kLook, 4, false, 1, 1, 1},
    Command{"sunsubscribe", Id::kUnsubscribe, Kind::kState, -1, false, 0, 0, 0},
    Command{"time", Id::kTime, Kind::kAnswer, 1, false, 0, 0, 0},
    Command{"touch", Id::kExists, Kind::kRead, -2, false, 1, -1, 1},
    Command{"ttl", Id::kTtl, Kind::kLook, 2, false, 1, 1, 1},
    Command{"type", Id::kType, Kind::kLook, 2, false, 1, 1, 1},
    Command{"unlink", Id::kDel, Kind::kDelete, -2, true, 1, -1, 1},
    Command{"unsubscribe", Id::kUnsubscribe, Kind::kState, -1, false, 0, 0, 0},
    Command{"unwatch", Id::kUnwatch, Kind::kTransaction, 1, false, 0, 0, 0},
    Command{"wait", Id::kWait, Kind::kAnswer, 3, false, 0, 0, 0},
    Command{"watch", Id::kWatch, Kind::kTransaction, -2, false, 1, -1, 1},
};
static_assert(std::ranges::is_sorted(kCommands, {}, &Command::name));
constexpr std::array kSubcommands{
    Subcommand{"acl|help", 2},
    Subcommand{"acl|users", 2},
    Subcommand{"acl|whoami", 2},
    Subcommand{"client|getname", 2},
    Subcommand{"client|help", 2},
    Subcommand{"client|id", 2},
    Subcommand{"client|info", 2},
    Subcommand{"client|kill", -3},
    Subcommand{"client|list", -2},
    Subcommand{"client|no-evict", 3},
    Subcommand{"client|no-touch", 3},
    Subcommand{"client|reply", 3},
    Subcommand{"client|setinfo", 4},
    Subcommand{"client|setname", 3},
    Subcommand{"client|tracking", -3},
    Subcommand{"command|count", 2},
    Subcommand{"command|docs", -2},
    Subcommand{"command|help", 2},
    Subcommand{"command|info", -2},
    Subcommand{"command|list", -2},
    Subcommand{"config|get", -3},
    Subcommand{"config|help", 2},
    Subcommand{"config|set", -4},
    Subcommand{"gossamer.peer|help", 2},
    Subcommand{"gossamer.peer|login", 3},
    Subcommand{"gossamer.peer|publish", 4},
    Subcommand{"gossamer.peer|spublish", 4},
    Subcommand{"memory|help", 2},
    Subcommand{"memory|usage", -3},
    Subcommand{"object|encoding", 3},
    Subcommand{"object|freq", 3},
    Subcommand{"object|help", 2},
    Subcommand{"object|idletime", 3},
    Subcommand{"object|refcount", 3},
    Subcommand{"pubsub|channels", -2},
    Subcommand{"pubsub|help", 2},
    Subcommand{"pubsub|numpat", 2},
    Subcommand{"pubsub|numsub", -2},
    Subcommand{"pubsub|shardchannels", -2},
    Subcommand{"pubsub|shardnumsub", -2},
    Subcommand{"script|debug", 3},
    Subcommand{"script|exists", -3},
    Subcommand{"script|flush", -2},
    Subcommand{"script|help", 2},
    Subcommand{"script|kill", 2},
    Subcommand{"script|load", 3},
    Subcommand{"slowlog|get", -2},
    Subcommand{"slowlog|help", 2},
    Subcommand{"slowlog|len", 2},
    Subcommand{"slowlog|reset", 2},
};
static_assert(std::ranges::is_sorted(kSubcommands, {}, &Subcommand::name));
static_assert(kCommands.size() <= kMostCommands);

// A hash table of the commands' places, with open addressing: each request looks for its command.
constexpr int kSlotBits = 9;
constexpr size_t kSlots = size_t{1} << kSlotBits;
static_assert(kSlots >= 4 * kMostCommands);
constexpr uint8_t kEmpty = kMostCommands;

// The first 8 bytes of a name as they are in memory, each with bit 5. Of letters, it is the same
// for either case, and for no other byte.
constexpr uint64_t kBit5 = 0x2020202020202020u;
constexpr uint64_t FoldedWord(std::string_view name) {
  uint64_t word = 0;
  for (size_t i = 0; i < std::min(name.size(), sizeof word); ++i) {
    word |= uint64_t{static_cast<unsigned char>(name[i])} << (8 * i);
  }
  return word | kBit5;
}

constexpr size_t SlotOf(uint64_t folded_word) {
  return folded_word * 0x9e3779b97f4a7c15u >> (64 - kSlotBits);
}

// Whether a name of this length and folded word has nothing else to be compared.
constexpr bool IsShortWord(std::string_view name) {
  return name.size() <= sizeof(uint64_t) &&
         std::ranges::all_of(name, [](char c) { return c >= 'a' && c <= 'z'; });
}

struct NameKey {
  uint64_t word;
  uint32_t size;
  bool is_short;
};
constexpr std::array<NameKey, kCommands.size()> kKeys = [] {
  std::array<NameKey, kCommands.size()> keys{};
  for (size_t i = 0; i < kCommands.size(); ++i) {
    const std::string_view name = kCommands[i].name;
    keys[i] = {FoldedWord(name), static_cast<uint32_t>(name.size()), IsShortWord(name)};
  }
  return keys;
}();

constexpr std::array<uint8_t, kSlots> kPlaces = [] {
  std::array<uint8_t, kSlots> places{};
  places.fill(kEmpty);
  for (size_t i = 0; i < kCommands.size(); ++i) {
    size_t slot = SlotOf(kKeys[i].word);
    while (places[slot] != kEmpty) slot = (slot + 1) % kSlots;
    places[slot] = static_cast<uint8_t>(i);
  }
  return places;
}();

}  // namespace

std::span<const Command> Commands() { return kCommands; }

const Command* FindCommand(std::string_view name) {
  const uint64_t word = FirstBytes(name) | kBit5;
  for (size_t slot = SlotOf(word); kPlaces[slot] != kEmpty; slot = (slot + 1) % kSlots) {
    const size_t place = kPlaces[slot];
    const NameKey& key = kKeys[place];
    if (key.word != word || key.size != name.size()) continue;
    const Command& command = kCommands[place];
    if (key.is_short || IsWord(name, command.name)) return &command;
  }
  return nullptr;
}

std::span<const Subcommand> Subcommands() { return kSubcommands; }

const Subcommand* FindSubcommand(const Command& command, std::string_view word) {
  const auto found = std::ranges::find_if(kSubcommands, [&](const Subcommand& one) {
    return one.IsOf(command) && IsWord(word, one.word());
  });
  return found != kSubcommands.end() ? &*found : nullptr;
}

}  // namespace gossamer::gateway
