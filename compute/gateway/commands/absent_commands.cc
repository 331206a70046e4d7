#include "compute/gateway/commands/absent_commands.h"

#include <algorithm>
#include <array>

#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {
namespace {

struct Family {
  std::string_view reason;
  std::string_view names;  // lower case, with blanks between them
};

constexpr std::array kFamilies = {
    Family{"ERR there are no transactions in Gossamer: each command is atomic by itself",
           "multi exec discard watch unwatch"},
    Family{"ERR keys do not expire in Gossamer",
           "expire pexpire expireat pexpireat setex psetex getex hexpire hexpireat hexpiretime "
           "hpersist hpexpire hpexpireat hpexpiretime hpttl httl"},
    Family{"ERR there are no scripts and functions in Gossamer",
           "eval evalsha eval_ro evalsha_ro script fcall fcall_ro function"},
    Family{"ERR there are no channels in Gossamer",
           "subscribe psubscribe ssubscribe unsubscribe punsubscribe sunsubscribe publish spublish "
           "pubsub"},
    Family{"ERR there are no bitmaps in Gossamer: GETRANGE and SETRANGE read and write bytes of a "
           "value",
           "setbit getbit bitcount bitfield bitfield_ro bitop bitpos"},
    Family{"ERR there are no lists in Gossamer: values are strings",
           "blmove blmpop blpop brpop brpoplpush lindex linsert llen lmove lmpop lpop lpos lpush "
           "lpushx lrange lrem lset ltrim rpop rpoplpush rpush rpushx"},
    Family{
        "ERR there are no sets in Gossamer: values are strings",
        "sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember "
        "smove spop srandmember srem sscan sunion sunionstore"},
    Family{"ERR there are no hashes in Gossamer: values are strings",
           "hdel hexists hget hgetall hgetdel hgetex hincrby hincrbyfloat hkeys hlen hmget hmset "
           "hrandfield hscan hset hsetex hsetnx hstrlen hvals"},
    Family{"ERR there are no sorted sets in Gossamer: keys are in order, and GOSSAMER.SCAN reads "
           "ranges of them",
           "bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard "
           "zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex "
           "zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore "
           "zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore"},
    Family{"ERR there are no streams in Gossamer: values are strings",
           "xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup "
           "xrevrange xsetid xtrim"},
    Family{"ERR there are no geospatial indexes in Gossamer: values are strings",
           "geoadd geodist geohash geopos georadius georadius_ro georadiusbymember "
           "georadiusbymember_ro geosearch geosearchstore"},
    Family{"ERR there are no HyperLogLogs in Gossamer: values are strings",
           "pfadd pfcount pfdebug pfmerge pfselftest"},
    Family{"ERR a command writes one key at a time in Gossamer: use SET with NX for each key",
           "msetnx"},
    Family{"ERR a command is atomic on one key in Gossamer: use GET, SET with NX and DEL",
           "rename renamenx copy"},
    Family{"ERR GETRANGE does this", "substr"},
    Family{"ERR Gossamer has database 0 only", "move swapdb"},
    Family{"ERR nothing is sorted here: GOSSAMER.SCAN reads keys in their order", "sort sort_ro"},
    Family{"ERR values are not compared in Gossamer: read both", "lcs"},
    Family{"ERR there are no dumps of single keys in Gossamer: use GET and SET, or `gossamer dump` "
           "for all keys",
           "dump restore restore-asking migrate"},
    Family{"ERR there is nothing to tell of single keys in Gossamer beyond TYPE and STRLEN",
           "object"},
    Family{"ERR Gossamer keeps its data in the memory servers, and writes no files",
           "save bgsave bgrewriteaof lastsave waitaof"},
    Family{"ERR there are no replicas in Gossamer: all compute servers see the same keys",
           "failover psync replconf replicaof slaveof sync"},
    Family{"ERR there are no slots in Gossamer: every compute server has all keys",
           "asking cluster readonly readwrite"},
    Family{"ERR signals and `gossamer` administer a Gossamer store: this command does not",
           "debug latency lolwut memory module monitor shutdown"},
};

bool HasWord(std::string_view words, std::string_view name) {
  while (!words.empty()) {
    const std::string_view word = words.substr(0, words.find(' '));
    if (IsWord(name, word)) return true;
    words.remove_prefix(std::min(word.size() + 1, words.size()));
  }
  return false;
}

}  // namespace

std::string_view ReasonOfAbsence(std::string_view name) {
  if (name.empty()) return {};
  const auto* const found = std::ranges::find_if(
      kFamilies, [name](const Family& family) { return HasWord(family.names, name); });
  return found != kFamilies.end() ? found->reason : std::string_view();
}

}  // namespace gossamer::gateway
