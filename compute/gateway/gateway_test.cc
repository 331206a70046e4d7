#include "compute/gateway/gateway.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/testing/seed.h"
#include "compute/gateway/testing/gateway_fixture.h"

namespace gossamer::gateway {
namespace {

TEST_F(GatewayTest, AnswersEachCommand) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect("PING\r\n", "+PONG\r\n");
  client.Expect(Request({"ping", "hi"}), "$2\r\nhi\r\n");
  client.Expect(Request({"ECHO", "a\r\nb"}), "$4\r\na\r\nb\r\n");
  client.Expect(Request({"GET", "k"}), "$-1\r\n");
  client.Expect(Request({"SET", "k", "v"}), "+OK\r\n");
  client.Expect(Request({"GET", "k"}), "$1\r\nv\r\n");
  client.Expect(Request({"SET", "k", "w", "NX"}), "$-1\r\n");
  client.Expect(Request({"SET", "k", "w", "xx"}), "+OK\r\n");
  client.Expect(Request({"SET", "n", "1", "XX"}), "$-1\r\n");
  client.Expect(Request({"SETNX", "k", "x"}), ":0\r\n");
  client.Expect(Request({"SETNX", "n", "x"}), ":1\r\n");
  client.Expect(Request({"STRLEN", "n"}), ":1\r\n");
  client.Expect(Request({"TYPE", "n"}), "+string\r\n");
  client.Expect(Request({"TYPE", "no"}), "+none\r\n");
  client.Expect(Request({"MSET", "a", "1", "b", "", "a", "2"}), "+OK\r\n");
  client.Expect(Request({"MGET", "a", "b", "c"}), "*3\r\n$1\r\n2\r\n$0\r\n\r\n$-1\r\n");
  client.Expect(Request({"EXISTS", "a", "a", "c"}), ":2\r\n");
  client.Expect(Request({"DBSIZE"}), ":4\r\n");
  client.Expect(Request({"KEYS", "[ab]"}), "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
  client.Expect(Request({"DEL", "a", "a", "c"}), ":1\r\n");
  client.Expect(Request({"UNLINK", "b"}), ":1\r\n");
  client.Expect(Request({"SELECT", "0"}), "+OK\r\n");
  client.Expect(Request({"FLUSHDB"}), "+OK\r\n");
  client.Expect(Request({"DBSIZE"}), ":0\r\n");
  client.Expect(Request({"QUIT"}), "+OK\r\n");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(GatewayTest, ReadsModifiesAndWrites) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"INCR", "n"}), ":1\r\n");
  client.Expect(Request({"INCRBY", "n", "41"}), ":42\r\n");
  client.Expect(Request({"DECR", "n"}), ":41\r\n");
  client.Expect(Request({"DECRBY", "n", "-9"}), ":50\r\n");
  client.Expect(Request({"INCRBYFLOAT", "n", "0.25"}), Bulk("50.25"));
  client.Expect(Request({"INCR", "n"}), "-ERR value is not an integer or out of range\r\n");
  client.Expect(Request({"INCRBYFLOAT", "n", "x"}), "-ERR value is not a valid float\r\n");
  client.Expect(Request({"GETSET", "n", "9223372036854775807"}), Bulk("50.25"));
  client.Expect(Request({"INCR", "n"}), "-ERR increment or decrement would overflow\r\n");
  client.Expect(Request({"DECRBY", "n", "-9223372036854775808"}),
                "-ERR decrement would overflow\r\n");
  client.Expect(Request({"GETDEL", "n"}), Bulk("9223372036854775807"));
  client.Expect(Request({"GETDEL", "n"}), "$-1\r\n");
  client.Expect(Request({"APPEND", "t", "Hello "}), ":6\r\n");
  client.Expect(Request({"APPEND", "t", "World"}), ":11\r\n");
  client.Expect(Request({"SETRANGE", "t", "6", "Redis"}), ":11\r\n");
  client.Expect(Request({"SETRANGE", "pad", "3", "x"}), ":4\r\n");
  client.Expect(Request({"GET", "pad"}), Bulk(std::string("\0\0\0x", 4)));
  client.Expect(Request({"SETRANGE", "t", "-1", "x"}), "-ERR offset is out of range\r\n");
  client.Expect(Request({"GETRANGE", "t", "0", "-1"}), Bulk("Hello Redis"));
  client.Expect(Request({"GETRANGE", "t", "-5", "-2"}), Bulk("Redi"));
  client.Expect(Request({"SUBSTR", "no", "0", "3"}), Bulk(""));
  client.Expect(Request({"SET", "t", "a", "GET"}), Bulk("Hello Redis"));
  client.Expect(Request({"SET", "t", "b", "NX", "GET"}), Bulk("a"));
  client.Expect(Request({"SET", "u", "b", "XX", "GET"}), "$-1\r\n");
  client.Expect(Request({"GET", "u"}), "$-1\r\n");
  client.Expect(Request({"APPEND", "t", std::string(1 << 20, 'x')}),
                "-ERR string exceeds maximum allowed size: values have at most 1 MiB\r\n");
  client.Expect(Request({"STRLEN", "t"}), ":1\r\n");
}

TEST_F(GatewayTest, CountsEachIncrementOnce) {
  constexpr int kClients = 6;
  constexpr int kRounds = 20;
  constexpr int kTogether = 50;
  GatewayOptions options;
  options.threads = 2;
  ASSERT_NO_FATAL_FAILURE(Open(options));
  std::vector<std::thread> threads;
  for (int number = 0; number < kClients; ++number) {
    threads.emplace_back([this] {
      Connection client = Connect();
      for (int round = 0; round < kRounds; ++round) {
        std::string requests;
        for (int i = 0; i < kTogether; ++i) {
          requests +=
              Request({"INCR", "n" + std::to_string(i % 3)}) + Request({"APPEND", "t", "x"});
        }
        // The last answer is that of a read: all before it have been sent by then.
        client.Send(requests + Request({"ECHO", "end"}));
        std::string replies;
        while (!replies.ends_with("end\r\n")) {
          const std::string byte = client.Receive(1);
          ASSERT_FALSE(byte.empty());
          replies += byte;
        }
        EXPECT_EQ(replies.find('-'), std::string::npos);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Connection client = Connect();
  constexpr int kAll = kClients * kRounds * kTogether;
  constexpr int kOfFirst = kClients * kRounds * (kTogether / 3 + 1);
  client.Expect(Request({"GET", "n0"}), Bulk(std::to_string(kOfFirst)));
  client.Expect(Request({"STRLEN", "t"}), ":" + std::to_string(kAll) + "\r\n");
}

TEST_F(GatewayTest, TellsOfItself) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(
      Request({"INFO", "Replication"}),
      Bulk("# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_repl_offset:0\r\n"));
  client.Expect(Request({"INFO", "nosuch"}), Bulk(""));
  client.Send(Request({"INFO"}));
  const std::string info = client.ReceiveBulk();
  for (const char* const field : {"redis_version:", "connected_clients:1\r", "used_memory_rss:",
                                  "total_commands_processed:", "used_cpu_user:", "# Keyspace\r"}) {
    EXPECT_NE(info.find(field), std::string::npos) << field;
  }
  client.Expect(Request({"SET", "x", "y"}), "+OK\r\n");
  client.Expect(Request({"INCR", "x"}), "-ERR value is not an integer or out of range\r\n");
  std::string stats;
  for (int i = 0; i < 100 && stats.find("failed_calls=1") == std::string::npos; ++i) {
    usleep(20'000);  // until the worker has published its counts
    client.Send(Request({"INFO", "commandstats"}) + Request({"ECHO", "end"}));
    for (stats.clear(); !stats.ends_with("end\r\n");) stats += client.Receive(1);
  }
  EXPECT_NE(stats.find("cmdstat_incr:calls=1,"), std::string::npos) << stats;
  client.Expect(Request({"CONFIG", "GET", "max*", "SAVE", "nosuch"}),
                "*8\r\n" + Bulk("maxclients") + Bulk("10000") + Bulk("maxmemory") + Bulk("0") +
                    Bulk("maxmemory-policy") + Bulk("noeviction") + Bulk("save") + Bulk(""));
  client.Expect(Request({"COMMAND", "INFO", "Get", "nosuch"}),
                "*2\r\n*10\r\n" + Bulk("get") +
                    ":2\r\n*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n*1\r\n+@read\r\n"
                    "*0\r\n*0\r\n*0\r\n$-1\r\n");
}

TEST_F(GatewayTest, DoesTransactions) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  const std::string queued = "+QUEUED\r\n";
  client.Expect(Request({"SET", "t", "1"}) + Request({"Multi"}) + Request({"INCR", "t"}) +
                    Request({"GET", "t"}) + Request({"MSET", "a", "x", "b", "y"}) +
                    Request({"MGET", "b", "t", "no"}) + Request({"DEL", "a", "no"}) +
                    Request({"EXISTS", "a", "b", "t"}) + Request({"PING"}) + Request({"EXEC"}) +
                    Request({"GET", "t"}),
                "+OK\r\n+OK\r\n" + queued + queued + queued + queued + queued + queued + queued +
                    "*7\r\n:2\r\n" + Bulk("2") + "+OK\r\n*3\r\n" + Bulk("y") + Bulk("2") +
                    "$-1\r\n:1\r\n:2\r\n+PONG\r\n" + Bulk("2"));
  client.Expect(Request({"MULTI"}) + Request({"EXEC"}), "+OK\r\n*0\r\n");
  client.Expect(Request({"MULTI"}) + Request({"SET", "t", "9"}) + Request({"DISCARD"}) +
                    Request({"GET", "t"}),
                "+OK\r\n" + queued + "+OK\r\n" + Bulk("2"));
  // An error of one command leaves the others.
  client.Expect(Request({"MULTI"}) + Request({"INCR", "b"}) + Request({"EXPIRE", "t", "100"}) +
                    Request({"INCRBY", "t", "many"}) + Request({"TTL", "t"}) + Request({"EXEC"}),
                "+OK\r\n" + queued + queued + queued + queued +
                    "*4\r\n-ERR value is not an integer or out of range\r\n:1\r\n"
                    "-ERR value is not an integer or out of range\r\n:100\r\n");
  const std::string large(300, 'k');
  client.Expect(Request({"MULTI"}) + Request({"GET", large}) + Request({"DEL", large}) +
                    Request({"EXISTS", large}) + Request({"SET", large, "v"}) + Request({"EXEC"}),
                "+OK\r\n" + queued + queued + queued + queued + "*4\r\n$-1\r\n:0\r\n:0\r\n-ERR ");
  client.ReceiveLine();
}

TEST_F(GatewayTest, RefusesTransactionsThatAreNone) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  const std::string aborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";
  client.Expect(Request({"EXEC"}), "-ERR EXEC without MULTI\r\n");
  client.Expect(Request({"DISCARD"}), "-ERR DISCARD without MULTI\r\n");
  client.Expect(Request({"MULTI"}) + Request({"MULTI"}) + Request({"WATCH", "k"}) +
                    Request({"SET", "k", "1"}) + Request({"EXEC"}),
                "+OK\r\n-ERR MULTI calls can not be nested\r\n"
                "-ERR WATCH inside MULTI is not allowed\r\n+QUEUED\r\n*1\r\n+OK\r\n");
  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{"GET"}, {"NONSENSE"}, {"DBSIZE"}, {"INFO"}}) {
    client.Send(Request({"MULTI"}) + Request({"SET", "k", "2"}) + Request(bad));
    EXPECT_EQ(client.ReceiveLine(), "+OK");
    EXPECT_EQ(client.ReceiveLine(), "+QUEUED");
    EXPECT_TRUE(client.ReceiveLine().starts_with("-ERR ")) << bad[0];
    client.Expect(Request({"EXEC"}) + Request({"GET", "k"}), aborted + Bulk("1"));
  }
  client.Expect(Request({"MULTI"}) + Request({"RESET"}) + Request({"EXEC"}),
                "+OK\r\n+RESET\r\n-ERR EXEC without MULTI\r\n");
}

TEST_F(GatewayTest, WatchesKeys) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  Connection other = Connect();
  const std::string transaction =
      Request({"MULTI"}) + Request({"SET", "w", "mine"}) + Request({"EXEC"});
  const std::string done = "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n";
  const std::string not_done = "+OK\r\n+QUEUED\r\n*-1\r\n";
  client.Expect(Request({"WATCH", "w"}) + transaction, "+OK\r\n" + done);
  client.Expect(Request({"WATCH", "w"}), "+OK\r\n");
  other.Expect(Request({"SET", "w", "other"}), "+OK\r\n");
  client.Expect(transaction, not_done);
  client.Expect(Request({"GET", "w"}) + transaction, Bulk("other") + done);
  // Others, too, that the transaction does not change.
  client.Expect(Request({"WATCH", "w", "x"}), "+OK\r\n");
  other.Expect(Request({"SET", "x", "1"}), "+OK\r\n");
  client.Expect(transaction, not_done);
  // A time is a change.
  client.Expect(Request({"WATCH", "w"}), "+OK\r\n");
  other.Expect(Request({"EXPIRE", "w", "100"}), ":1\r\n");
  client.Expect(transaction, not_done);
  for (const std::string end : {"UNWATCH", "DISCARD"}) {
    other.Expect(Request({"SET", "w", "four"}), "+OK\r\n");
    client.Expect(Request({"WATCH", "w"}), "+OK\r\n");
    other.Expect(Request({"APPEND", "w", "."}), ":5\r\n");
    if (end == "DISCARD") client.Expect(Request({"MULTI"}), "+OK\r\n");
    client.Expect(Request({end}) + transaction, "+OK\r\n" + done);
  }
}

TEST_F(GatewayTest, KeepsHashesAndSets) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  const std::string wrong = "-" + std::string(kWrongType) + "\r\n";
  const std::string pipeline = Request({"SADD", "s", "x", "y", "x"}) + Request({"SCARD", "s"}) +
                               Request({"HSET", "h", "a", "1"}) + Request({"HGET", "h", "a"}) +
                               Request({"HINCRBY", "h", "a", "41"}) + Request({"HGETALL", "h"}) +
                               Request({"GET", "h"}) + Request({"MGET", "h", "none"}) +
                               Request({"LLEN", "h"});
  client.Expect(pipeline, ":2\r\n:2\r\n:1\r\n" + Bulk("1") + ":42\r\n*2\r\n" + Bulk("a") +
                              Bulk("42") + wrong + "*2\r\n$-1\r\n$-1\r\n" +
                              "-ERR there are no lists");
  client.ReceiveLine();
  client.Expect(Request({"SET", "p", "1"}), "+OK\r\n");
  for (const auto& [type, key] :
       {std::pair("hash", "h"), std::pair("set", "s"), std::pair("string", "p")}) {
    client.Expect(Request({"TYPE", key}), "+" + std::string(type) + "\r\n");
    client.Expect(Request({"SCAN", "0", "TYPE", type}),
                  "*2\r\n" + Bulk("0") + "*1\r\n" + Bulk(key));
  }
  client.Expect(Request({"SCAN", "0", "TYPE", "zset"}), "*2\r\n" + Bulk("0") + "*0\r\n");
  // A value that is longer than a batch brings together, and its time.
  const std::string text(300'000, 'v');
  client.Expect(Request({"HSET", "h", "b", text}), ":1\r\n");
  client.Expect(Request({"EXPIRE", "h", "100"}), ":1\r\n");
  client.Expect(Request({"HGET", "h", "b"}) + Request({"TTL", "h"}), Bulk(text) + ":100\r\n");
  client.Expect(
      Request({"MULTI"}) + Request({"HDEL", "h", "b"}) + Request({"HLEN", "h"}) + Request({"EXEC"}),
      "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:1\r\n");
  // It is large now, and stays so.
  client.Send(Request({"EVAL", "return redis.call('hget', KEYS[1], 'a')", "1", "h"}));
  EXPECT_TRUE(client.ReceiveLine().starts_with("-ERR a script cannot use this hash"));
  client.Expect(Request({"RENAME", "h", "g"}) + Request({"TYPE", "g"}) + Request({"TTL", "g"}),
                "+OK\r\n+hash\r\n:100\r\n");
  client.Expect(Request({"MSETNX", "n", "1", "g", "2"}) + Request({"EXISTS", "n", "h", "g"}),
                ":0\r\n:1\r\n");
  client.Expect(Request({"HDEL", "g", "a"}) + Request({"TYPE", "g"}), ":1\r\n+none\r\n");
}

TEST_F(GatewayTest, ComparesBeforeItWrites) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"SET", "k", "a", "IFEQ", "b"}), "$-1\r\n");
  client.Expect(Request({"SET", "k", "a", "IFNE", "b"}), "+OK\r\n");
  client.Expect(Request({"SET", "k", "b", "IFEQ", "a", "GET"}), Bulk("a"));
  client.Expect(Request({"SET", "k", "c", "IFNE", "b"}), "$-1\r\n");
  client.Expect(Request({"SET", "k", "c", "IFNE", "b", "NX"}), "-ERR syntax error\r\n");
  // The XXH3 of 64 bits of "b", by the program xxhsum.
  const std::string digest = "575a0b1c44d8843f";
  client.Expect(Request({"DIGEST", "k"}), Bulk(digest));
  client.Expect(Request({"DIGEST", "none"}), "$-1\r\n");
  client.Expect(Request({"SET", "k", "c", "IFDEQ", digest}), "+OK\r\n");
  client.Expect(Request({"DELEX", "k", "IFEQ", "b"}), ":0\r\n");
  client.Expect(Request({"DELEX", "k", "IFDNE", digest}), ":1\r\n");
  client.Expect(Request({"DELEX", "k"}), ":0\r\n");
}

// Each by the name of what is not there.
TEST_F(GatewayTest, RefusesCommandsOfRedisByTheirNames) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  for (const auto& [name, reason] :
       {std::pair("BRPOP", "-ERR there are no lists in Gossamer"),
        std::pair("bitop", "-ERR of bits Gossamer has SETBIT, GETBIT and BITCOUNT"),
        std::pair("SINTER", "-ERR a command is atomic on one key"),
        std::pair("fcall_ro", "-ERR there are no functions"),
        std::pair("ZADD", "-ERR there are no sorted sets"),
        std::pair("geoadd", "-ERR there are no geospatial indexes"),
        std::pair("shutdown", "-ERR signals and `gossamer` administer")}) {
    client.Send(Request({name, "a", "b"}));
    EXPECT_TRUE(client.ReceiveLine().starts_with(reason)) << name;
  }
  for (const std::string name : {"", "b", "brpo", "brpop blpop", " "}) {
    client.Send(Request({name}));
    EXPECT_TRUE(client.ReceiveLine().starts_with("-ERR unknown command")) << name;
  }
}

TEST_F(GatewayTest, RefusesWithASentence) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"NOSUCH", "a"}),
                "-ERR unknown command 'NOSUCH', with args beginning with: 'a' \r\n");
  client.Expect(Request({"GET"}), "-ERR wrong number of arguments for 'get' command\r\n");
  client.Expect(Request({"MSET", "a", "1", "b"}),
                "-ERR wrong number of arguments for 'mset' command\r\n");
  client.Expect(Request({"SET", "k", "v", "EX", "0"}),
                "-ERR invalid expire time in 'set' command\r\n");
  client.Expect(Request({"EXPIRE", "k", "ten"}),
                "-ERR value is not an integer or out of range\r\n");
  client.Expect(Request({"SET", "k", "v", "NX", "XX"}), "-ERR syntax error\r\n");
  for (const char* const cursor : {"77", "x", "9223372036854775808", "18446744073709551616"}) {
    client.Expect(Request({"SCAN", cursor}), "-ERR invalid cursor\r\n");
  }
  client.Expect(Request({"SELECT", "1"}),
                "-ERR DB index is out of range: Gossamer has database 0 only\r\n");
  client.Expect(Request({"SET", std::string(300, 'k'), "v"}), "-ERR ");
  client.Receive(0);
  Connection other = Connect();
  other.Expect("*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'\r\n");
  EXPECT_TRUE(other.IsClosed());
}

// No key of 251 bytes can be there. A write of one is refused before anything of its command is
// done.
TEST_F(GatewayTest, TakesTooLongOperandsForAbsentKeysOrRefusesTheWhole) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  const std::string key(251, 'k');
  const std::string value((size_t{1} << 20) + 1, 'v');
  client.Expect(Request({"MSET", "a", "1"}), "+OK\r\n");
  client.Expect(Request({"MGET", key, "a"}), "*2\r\n$-1\r\n$1\r\n1\r\n");
  client.Expect(Request({"GET", key}), "$-1\r\n");
  client.Expect(Request({"EXISTS", "a", key}), ":1\r\n");
  client.Expect(Request({"STRLEN", key}), ":0\r\n");
  client.Expect(Request({"TYPE", key}), "+none\r\n");
  client.Expect(Request({"DEL", "a", key}), ":1\r\n");
  client.Expect(Request({"MSET", "a", "1", key, "2"}),
                "-ERR a key of 251 bytes: this store takes at most 250\r\n");
  client.Expect(Request({"MSET", "a", "1", "b", value, "c", "3"}),
                "-ERR a value of 1048577 bytes: at most 1048576 (1 MiB)\r\n");
  client.Expect(Request({"EXISTS", "a", "b", "c"}), ":0\r\n");
}

TEST_F(GatewayTest, KeepsTheOrderOfAPipeline) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  std::string requests;
  std::string replies;
  for (int i = 0; i < 3000; ++i) {
    const std::string value = std::to_string(i);
    requests += Request({"SET", "k", value}) + Request({"GET", "k"}) + Request({"PING"}) +
                Request({"DEL", "k"}) + Request({"GET", "k"});
    replies += "+OK\r\n" + Bulk(value) + "+PONG\r\n:1\r\n$-1\r\n";
  }
  std::thread sender([&] { client.Send(requests); });
  EXPECT_EQ(client.Receive(replies.size()), replies);
  sender.join();
}

TEST_F(GatewayTest, KeepsTheWordsOfLines) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect("SET ka1 va1\r\nSET kb2 vb2\r\nGET ka1\r\nGET kb2\r\nPING\r\n",
                "+OK\r\n+OK\r\n$3\r\nva1\r\n$3\r\nvb2\r\n+PONG\r\n");
}

TEST_F(GatewayTest, SendsAllAnswersBeforeItCloses) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection first = Connect();
  const std::string value(1'000'000, 'v');
  first.Expect(Request({"SET", "k", value}), "+OK\r\n");
  for (const std::string& last : {Request({"QUIT"}), std::string("*x\r\n"), std::string()}) {
    Connection client = Connect();
    client.Send(Request({"GET", "k"}) + last);
    if (last.empty()) client.EndSending();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(client.Receive(Bulk(value).size()), Bulk(value));
  }
}

TEST_F(GatewayTest, LetsClientsGoThatEndInTheMiddle) {
  GatewayOptions options;
  options.max_clients = 4;
  ASSERT_NO_FATAL_FAILURE(Open(options));
  for (int i = 0; i < 50; ++i) {
    for (int tries = 0;; ++tries) {
      Connection client = Connect();
      client.Send("PING\r\n*1\r\n");
      if (client.Receive(7) == "+PONG\r\n") break;
      ASSERT_LT(tries, 1000) << "connection " << i;  // others have not been let go yet
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

TEST_F(GatewayTest, GivesNoMemoryForWhatIsOnlyAnnounced) {
  GatewayOptions options;
  options.max_query_bytes = 1 << 20;
  ASSERT_NO_FATAL_FAILURE(Open(options));
  Connection client = Connect();
  client.Expect("*1\r\n$2000000\r\n", "-ERR Protocol error: invalid bulk length\r\n");
}

TEST_F(GatewayTest, ScansEachKeyOnce) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto session = std::move(store_->NewSession().value());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(session->Put("k" + std::to_string(10'000 + i), "v"));
  }
  Connection client = Connect();
  std::string cursor = "0";
  int next = 0;
  do {
    client.Send(Request({"SCAN", cursor, "MATCH", "k*", "COUNT", "150"}));
    EXPECT_EQ(client.Receive(5), "*2\r\n$");
    std::string header;
    while (!header.ends_with("\r\n")) header += client.Receive(1);
    cursor = client.Receive(static_cast<size_t>(std::stoi(header)));
    client.Receive(2);
    std::string count;
    while (!count.ends_with("\r\n")) count += client.Receive(1);
    for (int left = std::stoi(count.substr(1)); left > 0; --left) {
      const std::string wanted = Bulk("k" + std::to_string(10'000 + next++));
      ASSERT_EQ(client.Receive(wanted.size()), wanted);
    }
  } while (cursor != "0");
  EXPECT_EQ(next, 1000);
}

// Behind a balancer: each page comes from another compute server; those before have ended.
TEST_F(GatewayTest, ACursorIsGoodOnEveryGatewayOfAStore) {
  constexpr int kKeys = 3000;
  ASSERT_NO_FATAL_FAILURE(Open());
  const auto session = std::move(store_->NewSession().value());
  std::set<std::string> expected;
  for (int i = 0; i < kKeys; ++i) {
    // Of some, neighbours share more than the mark of a leaf's low fence holds.
    const std::string prefix = i % 2 == 0 ? "" : "/a/prefix/that/all/of/them/have/";
    expected.insert(prefix + std::to_string(i));
    ASSERT_TRUE(session->Put(prefix + std::to_string(i), "v"));
  }
  std::multiset<std::string> found;
  std::string cursor = "0";
  int pages = 0;
  do {
    // Another gateway knows nothing of this one's cursors.
    StartGateway();
    Connection client = Connect();
    client.Send(Request({"SCAN", cursor, "COUNT", "10"}));
    EXPECT_EQ(client.ReceiveLine(), "*2");
    cursor = client.ReceiveBulk();
    const std::string count = client.ReceiveLine();
    for (int left = std::stoi(count.substr(1)); left > 0; --left)
      found.insert(client.ReceiveBulk());
    ASSERT_LT(++pages, kKeys / 10);
  } while (cursor != "0");
  EXPECT_GT(pages, 10);
  EXPECT_TRUE(std::ranges::equal(found, expected));
}

TEST_F(GatewayTest, ScansAndDeletesRanges) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"RANDOMKEY"}), "$-1\r\n");
  client.Expect(Request({"MSET", "a", "1", "b:1", "2", "b:2", "3", "c", "4"}), "+OK\r\n");
  client.Expect(Request({"GOSSAMER.SCAN", "FROM", "b", "TO", "c"}),
                "*4\r\n" + Bulk("b:1") + Bulk("2") + Bulk("b:2") + Bulk("3"));
  client.Expect(Request({"gossamer.scan", "prefix", "b:", "limit", "1", "rev"}),
                "*2\r\n" + Bulk("b:2") + Bulk("3"));
  client.Expect(Request({"GOSSAMER.SCAN", "LIMIT", "0"}), "*0\r\n");
  client.Expect(Request({"GOSSAMER.SCAN", "LIMIT", "x"}),
                "-ERR value is not an integer or out of range\r\n");
  client.Expect(Request({"GOSSAMER.SCAN", "FROM"}), "-ERR syntax error\r\n");
  client.Expect(Request({"GOSSAMER.DELRANGE", "PREFIX", "b:", "REV"}), "-ERR syntax error\r\n");
  client.Expect(Request({"GOSSAMER.DELRANGE"}),
                "-ERR wrong number of arguments for 'gossamer.delrange' command\r\n");
  std::set<std::string> seen;
  for (int i = 0; i < 400; ++i) {
    client.Send(Request({"RANDOMKEY"}));
    const std::string size = client.Receive(4);
    seen.insert(client.Receive(static_cast<size_t>(size[1] - '0') + 2));
  }
  EXPECT_EQ(seen.size(), 4U);
  client.Expect(Request({"GOSSAMER.DELRANGE", "PREFIX", "b:"}), ":2\r\n");
  client.Expect(Request({"KEYS", "*"}), "*2\r\n" + Bulk("a") + Bulk("c"));
}

TEST_F(GatewayTest, HasResp3AndPasswords) {
  GatewayOptions options;
  ASSERT_TRUE(options.users.Add("default", "secret"));
  ASSERT_NO_FATAL_FAILURE(Open(options));
  Connection client = Connect();
  client.Expect(Request({"GET", "k"}), "-NOAUTH Authentication required.\r\n");
  client.Expect(Request({"AUTH", "wrong!"}),
                "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
  client.Expect(Request({"HELLO", "3"}), "-NOAUTH HELLO must be called");
  Connection other = Connect();
  other.Expect(Request({"HELLO", "3", "AUTH", "default", "secret"}),
               "%7\r\n$6\r\nserver\r\n$8\r\ngossamer\r\n");
  Connection third = Connect();
  third.Expect(Request({"AUTH", "secret"}), "+OK\r\n");
  third.Expect(Request({"GET", "k"}), "$-1\r\n");
}

TEST_F(GatewayTest, Resp3HasItsOwnNull) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Send(Request({"HELLO", "3"}));
  std::string reply;
  while (!reply.ends_with("modules\r\n*0\r\n")) reply += client.Receive(1);
  client.Expect(Request({"GET", "k"}), "_\r\n");
}

TEST_F(GatewayTest, EndsAConnectionThatHasEndedBehindMulti) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Send("MULTI\r\n");
  client.EndSending();
  EXPECT_EQ(client.ReceiveToEnd(), "+OK\r\n");
}

TEST_F(GatewayTest, AKeyThatIsTooLongIsAbsent) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  const std::string key(300, 'k');
  client.Expect(Request({"GETDEL", key}), "$-1\r\n");
  client.Expect(Request({"GET", key}), "$-1\r\n");
  client.Expect(Request({"DEL", key}), ":0\r\n");
}

TEST_F(GatewayTest, ServesManyClientsOfTwoThreads) {
  GatewayOptions options;
  options.threads = 2;
  ASSERT_NO_FATAL_FAILURE(Open(options));
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([this, number] {
      Connection client = Connect();
      std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(number));
      std::map<std::string, std::string> model;
      for (int round = 0; round < 100; ++round) {
        std::string requests;
        std::string replies;
        for (int i = 0; i < 30; ++i) {
          const std::string key = std::to_string(number) + ":" + std::to_string(random() % 20);
          const std::string value(random() % 40, static_cast<char>('a' + random() % 26));
          const auto known = model.find(key);
          switch (random() % 4) {
            case 0:
              requests += Request({"DEL", key});
              replies += known == model.end() ? ":0\r\n" : ":1\r\n";
              model.erase(key);
              break;
            case 1:
              requests += Request({"SET", key, value, "NX"});
              replies += known == model.end() ? "+OK\r\n" : "$-1\r\n";
              model.emplace(key, value);
              break;
            case 2:
              requests += Request({"SET", key, value});
              replies += "+OK\r\n";
              model[key] = value;
              break;
            default:
              requests += Request({"GET", key});
              replies += known == model.end() ? "$-1\r\n" : Bulk(known->second);
          }
        }
        client.Send(requests);
        ASSERT_EQ(client.Receive(replies.size()), replies);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GatewayTest, RefusesToListen) {
  ASSERT_NO_FATAL_FAILURE(Open());
  GatewayOptions options;
  options.listen = {"unix:" + path_};
  const auto taken = Gateway::Start(options, *store_);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().message,
            "cannot listen on unix:" + path_ + ": Address already in use; give another --redis");
  const std::string file = path_ + ".txt";
  std::ofstream(file) << "text";
  options.listen = {"unix:" + file};
  EXPECT_FALSE(Gateway::Start(options, *store_));
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "text");
  unlink(file.c_str());
  options.listen = {"0.0.0.0:0"};
  const auto open = Gateway::Start(options, *store_);
  ASSERT_FALSE(open);
  EXPECT_NE(open.error().message.find("set a password"), std::string::npos);
}

// A hash of many fields, of which each is a key of the store.
TEST_F(GatewayTest, ServesLargeHashes) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  constexpr int kFields = 5000;
  std::vector<std::string> words{"HSET", "h"};
  for (int i = 0; i < kFields; ++i) {
    words.push_back("f" + std::to_string(i));
    words.push_back(std::to_string(i));
  }
  client.Expect(Request(words), ":5000\r\n");
  client.Expect(Request({"SADD", "s", "a"}), ":1\r\n");
  client.Expect(Request({"HGET", "h", "f4999"}) + Request({"HMGET", "h", "f1", "none", "f2"}) +
                    Request({"HEXISTS", "h", "none"}) + Request({"HSTRLEN", "h", "f4999"}) +
                    Request({"SISMEMBER", "h", "f1"}) + Request({"GET", "h"}) +
                    Request({"SISMEMBER", "s", "a"}),
                Bulk("4999") + "*3\r\n" + Bulk("1") + "$-1\r\n" + Bulk("2") + ":0\r\n:4\r\n-" +
                    std::string(kWrongType) + "\r\n-" + std::string(kWrongType) + "\r\n:1\r\n");
  // Lists and what comes before and behind them, in order.
  client.Send(Request({"HGET", "h", "f7"}) + Request({"HLEN", "h"}) + Request({"HKEYS", "h"}) +
              Request({"HSET", "h", "f7", "seven"}) + Request({"HGET", "h", "f7"}));
  EXPECT_EQ(client.ReceiveBulk(), "7");
  EXPECT_EQ(client.ReceiveLine(), ":5000");
  EXPECT_EQ(client.ReceiveLine(), "*5000");
  std::set<std::string> fields;
  for (int i = 0; i < kFields; ++i) fields.insert(client.ReceiveBulk());
  EXPECT_EQ(fields.size(), 5000u);
  EXPECT_EQ(client.ReceiveLine(), ":0");
  EXPECT_EQ(client.ReceiveBulk(), "seven");
  client.Send(Request({"HGETALL", "h"}));
  EXPECT_EQ(client.ReceiveLine(), "*10000");
  for (int i = 0; i < 2 * kFields; ++i) client.ReceiveBulk();
  // In parts, each field once.
  fields.clear();
  std::string cursor = "0";
  size_t seen = 0;
  int parts = 0;
  do {
    client.Send(Request({"HSCAN", "h", cursor, "COUNT", "100"}));
    ASSERT_EQ(client.ReceiveLine(), "*2");
    cursor = client.ReceiveBulk();
    const int count = std::stoi(client.ReceiveLine().substr(1));
    for (int i = 0; i < count; ++i) {
      const std::string text = client.ReceiveBulk();
      if (i % 2 == 0) fields.insert(text);
    }
    seen += static_cast<size_t>(count) / 2;
    ++parts;
  } while (cursor != "0" && parts < 1000);
  EXPECT_EQ(seen, 5000u);
  EXPECT_EQ(fields.size(), 5000u);
  EXPECT_GT(parts, 5);
  // Its fields are no keys of clients.
  client.Expect(Request({"DBSIZE"}), ":2\r\n");
  client.Expect(Request({"KEYS", "*"}), "*2\r\n" + Bulk("h") + Bulk("s"));
  client.Expect(Request({"SCAN", "0", "TYPE", "hash"}),
                "*2\r\n" + Bulk("0") + "*1\r\n" + Bulk("h"));
  client.Send(Request({"GET", "\xff\xff\xff\xff"}));
  EXPECT_TRUE(client.ReceiveLine().starts_with("-ERR keys that begin with"));
  client.Send(Request({"MSET", "a", "1", "\xff\xff\xff\xff", "2"}));
  EXPECT_TRUE(client.ReceiveLine().starts_with("-ERR keys that begin with"));
  client.Send(Request({"WATCH", "h"}));
  EXPECT_TRUE(client.ReceiveLine().starts_with("-ERR this hash or set cannot be watched"));
  client.Expect(Request({"MULTI"}) + Request({"HSET", "h", "n", "1"}) +
                    Request({"HINCRBY", "h", "n", "1"}) + Request({"EXEC"}),
                "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:2\r\n");
  client.Expect(Request({"FLUSHALL"}) + Request({"DBSIZE"}), "+OK\r\n:0\r\n");
  client.Expect(Request({"HGET", "h", "f1"}) + Request({"HSET", "h", "f1", "new"}) +
                    Request({"HGETALL", "h"}),
                "$-1\r\n:1\r\n*2\r\n" + Bulk("f1") + Bulk("new"));
}

// Of a hash that the worker knows, a field comes along with the header that says where it is.
TEST_F(GatewayTest, AFieldOfALargeHashIsOneRoundTrip) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  std::vector<std::string> words{"HSET", "h"};
  for (int i = 0; i < 5000; ++i) {
    words.push_back("f" + std::to_string(i));
    words.push_back(std::to_string(i));
  }
  client.Expect(Request(words), ":5000\r\n");
  const auto round_trips = [&] {
    const auto before = store_->counters().of(OperationClass::kRead).round_trips;
    for (int i = 0; i < 100; ++i) {
      client.Expect(Request({"HGET", "h", "f" + std::to_string(i)}), Bulk(std::to_string(i)));
    }
    return store_->counters().of(OperationClass::kRead).round_trips - before;
  };
  round_trips();  // it learns where the leaves are, and the blocks
  EXPECT_LE(round_trips(), 101u);
}

}  // namespace
}  // namespace gossamer::gateway
