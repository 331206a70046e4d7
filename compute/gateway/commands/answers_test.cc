// What Redis's own tests and clients ask beside keys and values: subcommands, INFO, times to live,
// and a client that is unknown.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "compute/gateway/gateway.h"
#include "compute/gateway/testing/gateway_fixture.h"

namespace gossamer::gateway {
namespace {

TEST_F(GatewayTest, RefusesSubcommandsInTheFormOfRedis) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"CLIENT", "KILL"}),
                "-ERR wrong number of arguments for 'client|kill' command\r\n");
  client.Expect(Request({"config", "get"}),
                "-ERR wrong number of arguments for 'config|get' command\r\n");
  client.Expect(Request({"SLOWLOG", "LEN", "1"}),
                "-ERR wrong number of arguments for 'slowlog|len' command\r\n");
  client.Expect(Request({"CONFIG", "Rewrite"}),
                "-ERR unknown subcommand 'Rewrite'. CONFIG has GET, SET here: flags configure this "
                "gateway\r\n");
  client.Expect(Request({"config", std::string("GET\0|", 5)}), "-ERR unknown subcommand 'GET'. ");
  client.ReceiveLine();
  client.Expect(Request({"slowlog", "what"}),
                "-ERR unknown subcommand 'what'. SLOWLOG has GET, LEN, RESET here\r\n");
  client.Expect(Request({"CLIENT"}), "-ERR wrong number of arguments for 'client' command\r\n");
}

TEST_F(GatewayTest, SetsTheLimitsOfTheSlowLog) {
  GatewayOptions options;
  options.slow_log = {.slower_than_us = -1, .entries = 128};
  ASSERT_NO_FATAL_FAILURE(Open(options));
  Connection client = Connect();
  const std::string failed = "-ERR CONFIG SET failed (possibly related to argument '";
  client.Expect(
      Request({"CONFIG", "SET", "maxclients", "1"}),
      failed + "maxclients') - can't set immutable config: flags configure this gateway\r\n");
  client.Expect(Request({"CONFIG", "SET", "hz", "1"}),
                "-ERR Unknown option or number of arguments for CONFIG SET - 'hz'\r\n");
  client.Expect(
      Request({"CONFIG", "SET", "slowlog-max-len", "-1"}),
      failed +
          "slowlog-max-len') - argument must be between 0 and 9223372036854775807 inclusive\r\n");
  client.Expect(Request({"CONFIG", "SET", "slowlog-max-len", "1", "Slowlog-Max-Len", "2"}),
                failed + "Slowlog-Max-Len') - duplicate parameter\r\n");
  client.Expect(Request({"CONFIG", "SET", "slowlog-max-len", "1", "slowlog-max-len"}),
                "-ERR wrong number of arguments for 'config|set' command\r\n");
  client.Expect(Request({"CONFIG", "SET", "slowlog-max-len", "3", "slowlog-log-slower-than", "x"}),
                failed);
  client.ReceiveLine();
  // None of these has changed anything.
  client.Expect(Request({"CONFIG", "GET", "slowlog*"}), "*4\r\n" + Bulk("slowlog-log-slower-than") +
                                                            Bulk("-1") + Bulk("slowlog-max-len") +
                                                            Bulk("128"));
  client.Expect(Request({"SET", "k", "v"}), "+OK\r\n");
  client.Expect(Request({"SLOWLOG", "LEN"}), ":0\r\n");
  client.Expect(Request({"config", "set", "slowlog-log-slower-than", "0"}), "+OK\r\n");
  for (int i = 0; i < 3; ++i) client.Expect(Request({"SET", "k", "v"}), "+OK\r\n");
  client.Expect(Request({"SLOWLOG", "LEN"}), ":3\r\n");
  client.Expect(Request({"CONFIG", "SET", "slowlog-max-len", "2"}), "+OK\r\n");
  client.Expect(Request({"SLOWLOG", "LEN"}), ":2\r\n");
  client.Expect(Request({"SET", "k", "v"}), "+OK\r\n");
  client.Expect(Request({"SLOWLOG", "LEN"}), ":2\r\n");
  client.Expect(Request({"CONFIG", "SET", "slowlog-max-len", "0"}), "+OK\r\n");
  client.Expect(Request({"SLOWLOG", "LEN"}), ":0\r\n");
  client.Expect(Request({"CONFIG", "SET", "slowlog-max-len", "9", "slowlog-log-slower-than",
                         "9223372036854775807"}),
                "+OK\r\n");
  client.Expect(Request({"SET", "k", "v"}), "+OK\r\n");
  client.Expect(Request({"SLOWLOG", "LEN"}), ":0\r\n");
}

// They would take long to match, and others wait meanwhile.
TEST_F(GatewayTest, RefusesLongPatterns) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  const std::string most = "*" + std::string(1023, 'p');
  const std::string refusal = "-ERR a pattern has at most 1024 bytes here\r\n";
  client.Expect(Request({"CONFIG", "GET", most}), "*0\r\n");
  client.Expect(Request({"CONFIG", "GET", most + "p"}), refusal);
  client.Expect(Request({"COMMAND", "LIST", "FILTERBY", "PATTERN", most}), "*0\r\n");
  client.Expect(Request({"COMMAND", "LIST", "FILTERBY", "PATTERN", most + "p"}), refusal);
  client.Expect(Request({"KEYS", most}), "*0\r\n");
  client.Expect(Request({"KEYS", most + "p"}), refusal);
  std::vector<std::string> many(2 + 1025, "nothing");
  many[0] = "COMMAND";
  many[1] = "INFO";
  client.Expect(Request(many), "-ERR COMMAND INFO takes at most 1024 names here\r\n");
  many[0] = "CONFIG";
  many[1] = "GET";
  client.Expect(Request(many), "-ERR CONFIG GET takes at most 1024 patterns here\r\n");
  many.pop_back();
  client.Expect(Request(many), "*0\r\n");
  many[0] = "COMMAND";
  many[1] = "INFO";
  std::string nulls = "*1024\r\n";
  for (int i = 0; i < 1024; ++i) nulls += "$-1\r\n";
  client.Expect(Request(many), nulls);
}

// As Redis 7.0.15 has answered.
TEST_F(GatewayTest, RefusesWrongNumbersInTheFormsOfRedis) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  const std::string no_integer = "-ERR value is not an integer or out of range\r\n";
  for (const std::string word : {"abc", "00", ""}) {
    client.Expect(Request({"SELECT", word}), no_integer);
  }
  client.Expect(Request({"SELECT", "0"}) + Request({"SELECT", "1"}),
                "+OK\r\n-ERR DB index is out of range: Gossamer has database 0 only\r\n");
  for (const std::string count : {"abc", "-2"}) {
    client.Expect(Request({"SLOWLOG", "GET", count}),
                  "-ERR count should be greater than or equal to -1\r\n");
  }
  for (const std::string count : {"-1", "0"}) {
    client.Expect(Request({"SCAN", "0", "COUNT", count}), "-ERR syntax error\r\n");
  }
  for (const std::string count : {"9223372036854775808", "007", "abc"}) {
    client.Expect(Request({"SCAN", "0", "COUNT", count}), no_integer);
  }
  client.Expect(Request({"CLIENT", "LIST", "ID", "0", "-1"}), "$0\r\n\r\n");
  client.Expect(Request({"CLIENT", "LIST", "ID", "x"}), "-ERR Invalid client ID\r\n");
  client.Expect(Request({"CLIENT", "NO-EVICT", "maybe"}), "-ERR syntax error\r\n");
  client.Expect(Request({"CLIENT", "NO-EVICT", "On"}), "+OK\r\n");
  for (const std::string version : {"abc", "3.0", "02"}) {
    client.Expect(Request({"HELLO", version}),
                  "-ERR Protocol version is not an integer or out of range\r\n");
  }
  client.Expect(Request({"HELLO", "4"}), "-NOPROTO unsupported protocol version\r\n");
  client.Expect(
      Request({"CONFIG", "SET", "slowlog-max-len", "abc"}),
      "-ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument "
      "couldn't be parsed into an integer\r\n");
  client.Expect(Request({"WAIT", "a", "1"}), no_integer);
  client.Expect(Request({"WAIT", "1", "-1"}), "-ERR timeout is negative\r\n");
}

TEST_F(GatewayTest, AnswersWhatClientsAskOfTheServer) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"WAIT", "1", "100"}), ":0\r\n");
  client.Expect(Request({"ROLE"}), "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
  client.Expect(Request({"TIME"}), "*2\r\n$10\r\n");
  client.ReceiveLine();
  EXPECT_LT(std::stoi(client.ReceiveBulk()), 1'000'000);
  client.Expect(Request({"CONFIG", "GET", "port", "bind"}),
                "*4\r\n" + Bulk("bind") + Bulk("") + Bulk("port") + Bulk("0"));
  client.Expect(Request({"slowlog", "help"}),
                "*6\r\n+SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n"
                "+GET\r\n+LEN\r\n+RESET\r\n+HELP\r\n+    Prints this help.");
  client.ReceiveLine();
  for (const std::string name : {"ACL", "CLIENT", "COMMAND", "CONFIG"}) {
    client.Send(Request({name, "HELP"}));
    for (int left = std::stoi(client.ReceiveLine().substr(1)); left > 0; --left) {
      EXPECT_TRUE(client.ReceiveLine().starts_with("+")) << name;
    }
  }
}

TEST_F(GatewayTest, MarksWhatReadsKeys) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  for (const std::string name : {"client", "auth", "hello", "quit"}) {
    client.Expect(Request({"COMMAND", "INFO", name}), "*1\r\n*10\r\n" + Bulk(name) + ":");
    client.ReceiveLine();
    client.Expect("", "*0\r\n:0\r\n:0\r\n:0\r\n*1\r\n+@connection\r\n*0\r\n*0\r\n*0\r\n");
  }
  client.Expect(Request({"COMMAND", "INFO", "config"}),
                "*1\r\n*10\r\n$6\r\nconfig\r\n:-2\r\n*0\r\n:0\r\n:0\r\n:0\r\n*1\r\n+@slow\r\n");
  client.Expect("", "*0\r\n*0\r\n*0\r\n");
  client.Expect(Request({"COMMAND", "INFO", "dbsize"}),
                "*1\r\n*10\r\n$6\r\ndbsize\r\n:1\r\n*1\r\n+readonly\r\n");
}

TEST_F(GatewayTest, MarksTextForPeopleInResp3) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Send(Request({"HELLO", "3"}) + Request({"CLIENT", "INFO"}) + Request({"CLIENT", "LIST"}) +
              Request({"INFO", "replication"}));
  while (client.ReceiveLine() != "*0") continue;
  for (int i = 0; i < 2; ++i) {
    const std::string header = client.ReceiveLine();
    EXPECT_TRUE(header.starts_with("=")) << header;
    const std::string line = client.ReceiveLineOf("\n");
    EXPECT_TRUE(line.starts_with("txt:id=") && line.ends_with(" resp=3")) << line;
    EXPECT_EQ(header, "=" + std::to_string(line.size() + 1));
    client.Expect("", "\r\n");
  }
  client.Expect("", "=74\r\ntxt:# Replication\r\nrole:master\r\n");
}

TEST_F(GatewayTest, ListsClientsWithTheirSubcommands) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Send(Request({"CLIENT", "LIST"}));
  EXPECT_NE(client.ReceiveBulk().find(" cmd=client|list "), std::string::npos);
  client.Send(Request({"client", "info"}));
  EXPECT_NE(client.ReceiveBulk().find(" cmd=client|info "), std::string::npos);
}

TEST_F(GatewayTest, ListsCommandsByPattern) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(
      Request({"COMMAND", "LIST", "FILTERBY", "PATTERN", "set*"}),
      "*5\r\n" + Bulk("set") + Bulk("setbit") + Bulk("setex") + Bulk("setnx") + Bulk("setrange"));
  client.Expect(Request({"command", "list", "filterby", "pattern", "client|i*"}),
                "*2\r\n" + Bulk("client|id") + Bulk("client|info"));
  client.Expect(Request({"COMMAND", "LIST", "FILTERBY", "MODULE", "any"}), "*0\r\n");
  client.Expect(Request({"COMMAND", "LIST", "FILTERBY"}), "-ERR syntax error\r\n");
  client.Expect(Request({"COMMAND", "LIST", "bad", "pattern", "x"}), "-ERR syntax error\r\n");
}

TEST_F(GatewayTest, HasTheSectionsOfInfo) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"SET", "k", "v"}), "+OK\r\n");
  const auto info = [&client](const std::string& section) {
    client.Send(Request({"INFO", section}));
    return client.ReceiveBulk();
  };
  const std::string usual = info("default");
  EXPECT_NE(usual.find("redis_version:"), std::string::npos);
  EXPECT_EQ(usual.find("Commandstats"), std::string::npos);
  for (const std::string section : {"all", "everything", "COMMANDSTATS"}) {
    // What has been answered before is counted, at once.
    EXPECT_NE(info(section).find("cmdstat_set:calls=1,"), std::string::npos) << section;
  }
}

TEST_F(GatewayTest, CountsRefusalsAndFailures) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"SET", "k", "v"}), "+OK\r\n");
  client.Expect(Request({"SET", "k"}), "-ERR wrong number of arguments for 'set' command\r\n");
  client.Expect(Request({"SET", "k", "v", "what"}), "-ERR syntax error\r\n");
  client.Expect(Request({"SET", "k", "v", "EX", "no"}),
                "-ERR value is not an integer or out of range\r\n");
  client.Expect(Request({"GET"}), "-ERR wrong number of arguments for 'get' command\r\n");
  client.Expect(Request({"NONSENSE"}), "-ERR unknown command");
  client.ReceiveLine();
  client.Expect(Request({"SELECT", "x"}), "-ERR value is not an integer or out of range\r\n");
  client.Expect(Request({"MGET", "k", "a", "b"}), "*3\r\n" + Bulk("v") + "$-1\r\n$-1\r\n");
  client.Expect(Request({"EXISTS", "k", "k"}), ":2\r\n");
  client.Send(Request({"INFO", "all"}));
  const std::string info = client.ReceiveBulk();
  const auto line = [&info](const std::string& name) {
    const size_t at = info.find("\r\n" + name) + 2;
    return info.substr(at, info.find("\r\n", at) - at);
  };
  const auto ends = [](const std::string& text, const std::string& end) {
    EXPECT_TRUE(text.ends_with(end)) << text;
  };
  EXPECT_TRUE(line("cmdstat_set:").starts_with("cmdstat_set:calls=3,usec="));
  ends(line("cmdstat_set:"), ",rejected_calls=1,failed_calls=2");
  EXPECT_EQ(line("cmdstat_get:"),
            "cmdstat_get:calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0");
  ends(line("cmdstat_select:"), ",rejected_calls=0,failed_calls=1");
  EXPECT_EQ(line("total_error_replies:"), "total_error_replies:6");
  EXPECT_EQ(line("total_commands_processed:"), "total_commands_processed:6");
  EXPECT_EQ(line("keyspace_hits:"), "keyspace_hits:3");
  EXPECT_EQ(line("keyspace_misses:"), "keyspace_misses:2");
  for (const std::string name :
       {"expired_keys:0", "evicted_keys:0", "loading:0", "tcp_port:0", "uptime_in_days:0"}) {
    EXPECT_EQ(line(name), name);
  }
  EXPECT_EQ(line("run_id:").size(), 7U + 40U);
  EXPECT_NE(info.find("instantaneous_ops_per_sec:"), std::string::npos);
}

TEST_F(GatewayTest, TellsTheKeysOfTheLastDbsize) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  const auto keyspace = [&client] {
    client.Send(Request({"INFO", "keyspace"}));
    return client.ReceiveBulk();
  };
  client.Expect(Request({"MSET", "a", "1", "b", "2"}), "+OK\r\n");
  EXPECT_EQ(keyspace(), "# Keyspace\r\n");
  client.Expect(Request({"DBSIZE"}), ":2\r\n");
  EXPECT_EQ(keyspace(), "# Keyspace\r\ndb0:keys=2,expires=0,avg_ttl=0\r\n");
}

TEST_F(GatewayTest, TellsNothingBeforeALogin) {
  GatewayOptions options;
  ASSERT_TRUE(options.users.Add("default", "secret"));
  ASSERT_NO_FATAL_FAILURE(Open(options));
  Connection client = Connect();
  for (const std::vector<std::string>& request : std::vector<std::vector<std::string>>{
           {"MULTI"}, {"NONSENSE"}, {"GET"}, {"GET", "k"}, {"CLIENT", "what"}, {"EXEC"}}) {
    client.Expect(Request(request), "-NOAUTH Authentication required.\r\n");
  }
  client.Expect(Request({"AUTH"}), "-ERR wrong number of arguments for 'auth' command\r\n");
  client.Expect(Request({"AUTH", "secret"}), "+OK\r\n");
  client.Expect(Request({"GET", "k"}), "$-1\r\n");
}

TEST_F(GatewayTest, GivesKeysATime) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"SET", "k", "v", "EX", "100"}), "+OK\r\n");
  client.Expect(Request({"TTL", "k"}), ":100\r\n");
  client.Expect(Request({"SET", "k", "w", "KEEPTTL"}), "+OK\r\n");
  client.Expect(Request({"TTL", "k"}), ":100\r\n");
  client.Expect(Request({"EXPIRE", "k", "50", "GT"}), ":0\r\n");
  client.Expect(Request({"EXPIRE", "k", "200", "GT"}), ":1\r\n");
  client.Expect(Request({"TTL", "k"}), ":200\r\n");
  client.Expect(Request({"INCR", "n"}) + Request({"EXPIRE", "n", "10", "NX"}), ":1\r\n:1\r\n");
  client.Expect(Request({"INCR", "n"}) + Request({"EXPIRE", "n", "99", "NX"}), ":2\r\n:0\r\n");
  client.Expect(Request({"TTL", "n"}), ":10\r\n");
  client.Expect(Request({"PERSIST", "n"}), ":1\r\n");
  client.Expect(Request({"TTL", "n"}), ":-1\r\n");
  client.Expect(Request({"EXPIREAT", "k", "2000000000"}), ":1\r\n");
  client.Expect(Request({"EXPIRETIME", "k"}), ":2000000000\r\n");
  client.Expect(Request({"GETEX", "k", "PERSIST"}), Bulk("w"));
  client.Expect(Request({"SET", "k", "x", "PX", "1"}), "+OK\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  client.Expect(Request({"GET", "k"}) + Request({"TTL", "k"}), "$-1\r\n:-2\r\n");
  client.Expect(Request({"SET", "k", "x"}) + Request({"EXPIRE", "k", "-1"}), "+OK\r\n:1\r\n");
  client.Expect(Request({"EXISTS", "k"}), ":0\r\n");
}

TEST_F(GatewayTest, SaysOfKeysThatDoNotExpire) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"SET", "k", "v"}), "+OK\r\n");
  for (const std::string name : {"TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"}) {
    client.Expect(Request({name, "k"}), ":-1\r\n");
    client.Expect(Request({name, "no"}), ":-2\r\n");
  }
  client.Expect(Request({"PERSIST", "k"}), ":0\r\n");
  client.Expect(Request({"TOUCH", "k", "no", "k"}), ":2\r\n");
}

// As in Redis: the memory of answers is for clients that are known, and such a client is not waited
// for.
TEST_F(GatewayTest, EndsAClientWithoutPasswordThatDoesNotRead) {
  GatewayOptions options;
  ASSERT_TRUE(options.users.Add("default", "secret"));
  ASSERT_NO_FATAL_FAILURE(Open(options));
  Connection client = Connect();
  const int error = client.SendUntilItFails(Request({"SET", "x", "5"}));
  EXPECT_TRUE(error == EPIPE || error == ECONNRESET) << error;
  Connection other = Connect();
  other.Expect(Request({"AUTH", "secret"}) + Request({"PING"}), "+OK\r\n+PONG\r\n");
}

// As in Redis: a web page can have a browser send such requests.
TEST_F(GatewayTest, EndsTheConnectionOfAClientThatSpeaksHttp) {
  GatewayOptions options;
  ASSERT_TRUE(options.users.Add("default", "secret"));
  const std::string login = Request({"AUTH", "secret"});
  ASSERT_NO_FATAL_FAILURE(Open(options));
  Connection other = Connect();
  other.Expect(login + Request({"SET", "k", "v"}), "+OK\r\n+OK\r\n");
  const std::string post = "POST / HTTP/1.1\r\nHost: 127.0.0.1:7400\r\n\r\n";
  for (const std::string& http :
       {post, Request({"POST"}), Request({"hOST:", "a"}), std::string("host: a\n")}) {
    for (const std::string& begin : {std::string(), login, login + Request({"MULTI"})}) {
      Connection client = Connect();
      std::string requests = begin;
      requests.append(http).append(login).append("FLUSHALL\r\n").append(Request({"FLUSHALL"}));
      client.Send(requests);
      const std::string answers = client.ReceiveToEnd();
      const std::string last = Request({"MULTI"});
      const std::string begun = begin.empty()           ? ""
                                : begin.ends_with(last) ? "+OK\r\n+OK\r\n"
                                                        : "+OK\r\n";
      EXPECT_EQ(answers, begun);
    }
  }
  Connection client = Connect();
  client.Expect(login + Request({"GET", "k"}), "+OK\r\n" + Bulk("v"));
  // These are words like others elsewhere.
  client.Expect(Request({"SET", "POST", "Host:"}), "+OK\r\n");
}

}  // namespace
}  // namespace gossamer::gateway
