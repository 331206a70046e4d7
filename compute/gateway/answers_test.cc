// What Redis's own tests and clients ask beside keys and values: subcommands, INFO, times to live, and a client that is unknown.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>

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
  client.Expect(Request({"CONFIG", "SET", "port", "1"}),
                "-ERR Unknown option or number of arguments for CONFIG SET - 'port'\r\n");
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
  client.Expect(Request({"SET", "k", "v"}), "+OK\r\n");
  client.Expect(Request({"SLOWLOG", "LEN"}), ":2\r\n");
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
  client.Expect(Request({"COMMAND", "LIST", "FILTERBY", "PATTERN", "set*"}),
                "*3\r\n" + Bulk("set") + Bulk("setnx") + Bulk("setrange"));
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

// Nothing expires: so Redis would answer, too.
TEST_F(GatewayTest, SaysThatKeysDoNotExpire) {
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

// As in Redis: the memory of answers is for clients that are known, and such a client is not waited for.
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
      client.Send(begin + http + login + "FLUSHALL\r\n" + Request({"FLUSHALL"}));
      const std::string answers = client.ReceiveToEnd();
      EXPECT_TRUE(answers.empty() || answers.starts_with("+OK\r\n")) << answers;
      EXPECT_EQ(std::ranges::count(answers, '+'), answers.empty() ? 0 : 1) << answers;
    }
  }
  Connection client = Connect();
  client.Expect(login + Request({"GET", "k"}), "+OK\r\n" + Bulk("v"));
  // These are words like others elsewhere.
  client.Expect(Request({"SET", "POST", "Host:"}), "+OK\r\n");
}

}  // namespace
}  // namespace gossamer::gateway
