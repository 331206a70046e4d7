#include "compute/gateway/command_table.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace gossamer::gateway {
namespace {

using Id = CommandId;
using Kind = CommandKind;

constexpr std::array kCommands{
    Command{"acl", Id::kAcl, Kind::kState, -2, false, 0, 0, 0},
    Command{"append", Id::kAppend, Kind::kChange, 3, true, 1, 1, 1},
    Command{"auth", Id::kAuth, Kind::kState, -2, false, 0, 0, 0},
    Command{"client", Id::kClient, Kind::kState, -2, false, 0, 0, 0},
    Command{"command", Id::kCommand, Kind::kAnswer, -1, false, 0, 0, 0},
    Command{"config", Id::kConfig, Kind::kAnswer, -2, false, 0, 0, 0},
    Command{"dbsize", Id::kDbSize, Kind::kWalk, 1, false, 0, 0, 0},
    Command{"decr", Id::kDecr, Kind::kChange, 2, true, 1, 1, 1},
    Command{"decrby", Id::kDecrBy, Kind::kChange, 3, true, 1, 1, 1},
    Command{"del", Id::kDel, Kind::kDelete, -2, true, 1, -1, 1},
    Command{"echo", Id::kEcho, Kind::kAnswer, 2, false, 0, 0, 0},
    Command{"exists", Id::kExists, Kind::kRead, -2, false, 1, -1, 1},
    Command{"flushall", Id::kFlushDb, Kind::kWalk, -1, true, 0, 0, 0},
    Command{"flushdb", Id::kFlushDb, Kind::kWalk, -1, true, 0, 0, 0},
    Command{"get", Id::kGet, Kind::kRead, 2, false, 1, 1, 1},
    Command{"getdel", Id::kGetDel, Kind::kChange, 2, true, 1, 1, 1},
    Command{"getrange", Id::kGetRange, Kind::kRead, 4, false, 1, 1, 1},
    Command{"getset", Id::kGetSet, Kind::kChange, 3, true, 1, 1, 1},
    Command{"gossamer.delrange", Id::kDeleteRange, Kind::kWalk, -3, true, 0, 0, 0},
    Command{"gossamer.scan", Id::kScanRange, Kind::kWalk, -1, false, 0, 0, 0},
    Command{"hello", Id::kHello, Kind::kState, -1, false, 0, 0, 0},
    Command{"incr", Id::kIncr, Kind::kChange, 2, true, 1, 1, 1},
    Command{"incrby", Id::kIncrBy, Kind::kChange, 3, true, 1, 1, 1},
    Command{"incrbyfloat", Id::kIncrByFloat, Kind::kChange, 3, true, 1, 1, 1},
    Command{"info", Id::kInfo, Kind::kState, -1, false, 0, 0, 0},
    Command{"keys", Id::kKeys, Kind::kWalk, 2, false, 0, 0, 0},
    Command{"mget", Id::kMget, Kind::kRead, -2, false, 1, -1, 1},
    Command{"mset", Id::kMset, Kind::kPut, -3, true, 1, -1, 2},
    Command{"ping", Id::kPing, Kind::kAnswer, -1, false, 0, 0, 0},
    Command{"quit", Id::kQuit, Kind::kState, -1, false, 0, 0, 0},
    Command{"randomkey", Id::kRandomKey, Kind::kWalk, 1, false, 0, 0, 0},
    Command{"reset", Id::kReset, Kind::kState, 1, false, 0, 0, 0},
    Command{"scan", Id::kScan, Kind::kWalk, -2, false, 0, 0, 0},
    Command{"select", Id::kSelect, Kind::kAnswer, 2, false, 0, 0, 0},
    Command{"set", Id::kSet, Kind::kPut, -3, true, 1, 1, 1},
    Command{"setnx", Id::kSetnx, Kind::kChange, 3, true, 1, 1, 1},
    Command{"setrange", Id::kSetRange, Kind::kChange, 4, true, 1, 1, 1},
    Command{"slowlog", Id::kSlowlog, Kind::kState, -2, false, 0, 0, 0},
    Command{"strlen", Id::kStrlen, Kind::kRead, 2, false, 1, 1, 1},
    Command{"substr", Id::kGetRange, Kind::kRead, 4, false, 1, 1, 1},
    Command{"type", Id::kType, Kind::kRead, 2, false, 1, 1, 1},
    Command{"unlink", Id::kDel, Kind::kDelete, -2, true, 1, -1, 1},
};
static_assert(std::ranges::is_sorted(kCommands, {}, &Command::name));
static_assert(kCommands.size() <= kMostCommands);
constexpr size_t kLongestName = 24;

constexpr char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c; }

}  // namespace

std::span<const Command> Commands() { return kCommands; }

const Command* FindCommand(std::string_view name) {
  if (name.size() > kLongestName) return nullptr;
  std::array<char, kLongestName> lower;
  std::ranges::transform(name, lower.begin(), Lower);
  const std::string_view wanted(lower.data(), name.size());
  const auto found = std::ranges::lower_bound(kCommands, wanted, {}, &Command::name);
  return found != kCommands.end() && found->name == wanted ? &*found : nullptr;
}

std::string_view ReasonOfAbsence(std::string_view name) {
  const auto is_among = [name](std::initializer_list<std::string_view> names) {
    return std::ranges::any_of(names, [name](std::string_view one) { return IsWord(name, one); });
  };
  if (is_among({"multi", "exec", "discard", "watch", "unwatch"})) {
    return "ERR there are no transactions in Gossamer: each command is atomic by itself";
  }
  if (is_among({"expire", "pexpire", "expireat", "pexpireat", "ttl", "pttl", "expiretime",
                "persist", "setex", "psetex", "getex"})) {
    return "ERR keys do not expire in Gossamer";
  }
  if (is_among({"eval", "evalsha", "eval_ro", "script", "fcall", "function"})) {
    return "ERR there are no scripts in Gossamer";
  }
  if (is_among({"subscribe", "psubscribe", "publish", "unsubscribe", "punsubscribe"})) {
    return "ERR there are no channels in Gossamer";
  }
  if (is_among({"lpush", "rpush", "lpop", "rpop", "lrange", "llen", "sadd", "srem", "smembers",
                "hset", "hget", "hgetall", "hdel", "hmset", "zadd", "zrem", "zrange", "xadd"})) {
    return "ERR Gossamer's values are strings: there are no lists, sets, hashes and streams";
  }
  return {};
}

std::string WrongNumberOfArguments(const Command& command) {
  return "ERR wrong number of arguments for '" + std::string(command.name) + "' command";
}

bool IsWord(std::string_view a, std::string_view lower) {
  return std::ranges::equal(a, lower, {}, Lower);
}

}  // namespace gossamer::gateway
