#include "compute/gateway/commands/refusals.h"

#include <glog/logging.h>

#include <algorithm>
#include <array>

#include "compute/gateway/commands/large_composite.h"
#include "compute/gateway/protocol/reply_writer.h"
#include "proto/store_parameters.h"

namespace gossamer::gateway {
namespace {

// The commands of Redis 7 that Gossamer does not have, and why.
struct Family {
  std::string_view reason;
  std::string_view names;  // lower case, with blanks between them
};

constexpr std::array kFamilies = {
    Family{"ERR a hash expires as a whole in Gossamer: use EXPIRE",
           "hexpire hexpireat hexpiretime hpersist hpexpire hpexpireat hpexpiretime hpttl httl "
           "hgetex hsetex"},
    Family{"ERR there are no functions in Gossamer: EVAL runs scripts", "fcall fcall_ro function"},
    Family{"ERR of bits Gossamer has SETBIT, GETBIT and BITCOUNT: GETRANGE and SETRANGE read and "
           "write bytes of a value",
           "bitfield bitfield_ro bitop bitpos"},
    Family{"ERR there are no lists in Gossamer: values are strings, hashes and sets",
           "blmove blmpop blpop brpop brpoplpush lindex linsert llen lmove lmpop lpop lpos lpush "
           "lpushx lrange lrem lset ltrim rpop rpoplpush rpush rpushx"},
    Family{"ERR a command is atomic on one key in Gossamer: use SMEMBERS, SADD and SREM",
           "sdiff sdiffstore sinter sintercard sinterstore smove sunion sunionstore"},
    Family{"ERR Gossamer has no HGETDEL: use HGET and HDEL", "hgetdel"},
    Family{"ERR there are no sorted sets in Gossamer: keys are in order, and GOSSAMER.SCAN reads "
           "ranges of them",
           "bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard "
           "zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex "
           "zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore "
           "zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore"},
    Family{"ERR there are no streams in Gossamer: values are strings, hashes and sets",
           "xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup "
           "xrevrange xsetid xtrim"},
    Family{"ERR there are no geospatial indexes in Gossamer: values are strings, hashes and sets",
           "geoadd geodist geohash geopos georadius georadius_ro georadiusbymember "
           "georadiusbymember_ro geosearch geosearchstore"},
    Family{"ERR there are no HyperLogLogs in Gossamer: values are strings, hashes and sets",
           "pfadd pfcount pfdebug pfmerge pfselftest"},
    Family{"ERR Gossamer has database 0 only", "move swapdb"},
    Family{"ERR nothing is sorted here: GOSSAMER.SCAN reads keys in their order", "sort sort_ro"},
    Family{"ERR values are not compared in Gossamer: read both", "lcs"},
    Family{"ERR there are no dumps of single keys in Gossamer: use GET and SET, or `gossamer dump` "
           "for all keys",
           "dump restore restore-asking migrate"},
    Family{"ERR Gossamer keeps its data in the memory servers, and writes no files",
           "save bgsave bgrewriteaof lastsave waitaof"},
    Family{"ERR there are no replicas in Gossamer: all compute servers see the same keys",
           "failover psync replconf replicaof slaveof sync"},
    Family{"ERR there are no slots in Gossamer: every compute server has all keys",
           "asking cluster readonly readwrite"},
    Family{"ERR signals and `gossamer` administer a Gossamer store: this command does not",
           "debug latency lolwut module monitor shutdown"},
};

constexpr size_t kMostQuoted = 128;
constexpr std::string_view kReservedKey =
    "ERR keys that begin with four bytes of ff are Gossamer's own: choose others";

bool HasWord(std::string_view words, std::string_view name) {
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(' '));
    if (IsWord(name, word)) return true;
    words.remove_prefix(std::min(word.size() + 1, words.size()));
  }
  return false;
}

// Why Gossamer does not have a command of this name, in any case; empty if Redis has none either.
std::string_view ReasonOfAbsence(std::string_view name) {
  if (name.empty()) return {};
  const auto* const found = std::ranges::find_if(
      kFamilies, [name](const Family& family) { return HasWord(family.names, name); });
  return found != kFamilies.end() ? found->reason : std::string_view();
}

// At most `bytes` of a word, up to its first NUL, as Redis quotes it.
std::string Quoted(std::string_view word, size_t bytes) {
  word = word.substr(0, bytes);
  return "'" + std::string(word.substr(0, word.find('\0'))) + "'";
}

std::string UnknownCommand(const std::vector<std::string_view>& arguments) {
  if (const std::string_view reason = ReasonOfAbsence(arguments[0]); !reason.empty()) {
    return std::string(reason);
  }
  std::string words;
  for (size_t i = 1; i < arguments.size() && words.size() < kMostQuoted; ++i) {
    words += Quoted(arguments[i], kMostQuoted - words.size()) + " ";
  }
  return "ERR unknown command " + Quoted(arguments[0], kMostQuoted) +
         ", with args beginning with: " + words;
}

std::string Capitals(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

// Without HELP.
std::vector<std::string> SubcommandsOf(const Command& command) {
  std::vector<std::string> names;
  for (const Subcommand& one : Subcommands()) {
    if (one.IsOf(command) && !IsHelp(one)) names.push_back(Capitals(one.word()));
  }
  return names;
}

std::string UnknownSubcommand(const Command& command, std::string_view word) {
  std::string names;
  for (const std::string& name : SubcommandsOf(command))
    names += (names.empty() ? "" : ", ") + name;
  std::string text = "ERR unknown subcommand " + Quoted(word, kMostQuoted) + ". " +
                     Capitals(command.name) + " has " + names + " here";
  if (command.id == CommandId::kAcl) text += ": users are those of --users_file";
  if (command.id == CommandId::kConfig) text += ": flags configure this gateway";
  return text;
}

std::string_view CodeWord(Code code) {
  switch (code) {
    case Code::kExhausted: return "OOM";
    case Code::kContended:
    case Code::kFenced: return "TRYAGAIN";
    case Code::kNodeUnreachable: return "UNREACHABLE";
    case Code::kCorruption: return "CORRUPT";
    case Code::kMaybeApplied: return "MAYBEAPPLIED";
    default: return "ERR";
  }
}

}  // namespace

std::string RefusalOf(const Command* command, const Subcommand* subcommand,
                      const std::vector<std::string_view>& arguments) {
  if (command == nullptr) return UnknownCommand(arguments);
  if (!IsRightCount(command->arity, arguments.size())) return WrongNumberOfArguments(command->name);
  if (HasReservedKey(*command, arguments)) return std::string(kReservedKey);
  if (!HasSubcommands(*command) || arguments.size() == 1) return {};
  if (subcommand == nullptr) return UnknownSubcommand(*command, arguments[1]);
  const bool is_right = IsRightCount(subcommand->arity, arguments.size());
  return is_right ? std::string() : WrongNumberOfArguments(subcommand->name);
}

std::string HelpOn(const Command& command) {
  const std::vector<std::string> names = SubcommandsOf(command);
  std::string text;
  ReplyWriter reply(text, false);  // RESP3 has the same lines
  reply.Array(names.size() + 3);
  reply.Simple(Capitals(command.name) +
               " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (const std::string& name : names) reply.Simple(name);
  reply.Simple("HELP");
  reply.Simple("    Prints this help. They are as in Redis.");
  return text;
}

void LogHttp(std::string_view address) {
  LOG_EVERY_T(WARNING, 10)
      << "ended the connection of " << address
      << ", which sent POST or Host: in the place of a command: somebody may be attacking this "
         "server by way of a web page (one in 10 s is logged)";
}

std::string ValueTooLong(size_t bytes) {
  return "ERR a value of " + std::to_string(bytes) + " bytes: at most " +
         std::to_string(kMaxValueBytes) + " (1 MiB)";
}

std::string WrongNumberOfArguments(std::string_view name) {
  return "ERR wrong number of arguments for '" + std::string(name) + "' command";
}

std::string ErrorLine(const Error& error) {
  std::string line(CodeWord(error.code));
  line += ' ';
  line += error.message.empty() ? std::string(CodeName(error.code)) : error.message;
  return line;
}

}  // namespace gossamer::gateway
