#include "compute/gateway/channels/channels.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compute/gateway/testing/gateway_fixture.h"

namespace gossamer::gateway {
namespace {

std::string Push(char type, const std::vector<std::string>& words) {
  std::string text = type + std::to_string(words.size()) + "\r\n";
  for (const std::string& one : words) text += one[0] == ':' ? one + "\r\n" : Bulk(one);
  return text;
}
std::string Resp2(const std::vector<std::string>& words) { return Push('*', words); }
std::string Resp3(const std::vector<std::string>& words) { return Push('>', words); }

std::string NotAllowed(const std::string& command) {
  return "-ERR Can't execute '" + command +
         "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
         "context\r\n";
}

class ChannelsTest : public GatewayTest {
 protected:
  void OpenThreads(uint32_t threads) {
    GatewayOptions options;
    options.threads = threads;
    Open(std::move(options));
  }
  void Speak3(Connection& client) {
    client.Send(Request({"HELLO", "3"}));
    std::string text;
    while (!text.ends_with("modules\r\n*0\r\n")) text += client.Receive(1);
  }
};

// As Redis 7.0.15 answers these, byte by byte.
TEST_F(ChannelsTest, ConfirmsSubscriptions) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"unsubscribe"}), "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n");
  client.Expect(Request({"punsubscribe"}), "*3\r\n$12\r\npunsubscribe\r\n$-1\r\n:0\r\n");
  client.Expect(Request({"sunsubscribe"}), "*3\r\n$12\r\nsunsubscribe\r\n$-1\r\n:0\r\n");
  client.Expect(Request({"unsubscribe", "x", "y"}),
                Resp2({"unsubscribe", "x", ":0"}) + Resp2({"unsubscribe", "y", ":0"}));
  client.Expect(Request({"SUBSCRIBE", "a", "b", "a"}), Resp2({"subscribe", "a", ":1"}) +
                                                           Resp2({"subscribe", "b", ":2"}) +
                                                           Resp2({"subscribe", "a", ":2"}));
  client.Expect(Request({"psubscribe", "a*"}), Resp2({"psubscribe", "a*", ":3"}));
  client.Expect(Request({"ssubscribe", "sh"}), Resp2({"ssubscribe", "sh", ":1"}));
  client.Expect(Request({"unsubscribe", "zz", "a"}),
                Resp2({"unsubscribe", "zz", ":3"}) + Resp2({"unsubscribe", "a", ":2"}));
  client.Expect(Request({"unsubscribe"}), Resp2({"unsubscribe", "b", ":1"}));
  client.Expect(Request({"punsubscribe"}), Resp2({"punsubscribe", "a*", ":0"}));
  client.Expect(Request({"sunsubscribe"}), Resp2({"sunsubscribe", "sh", ":0"}));
  client.Expect(Request({"PING"}), "+PONG\r\n");
}

TEST_F(ChannelsTest, AllowsSubscribersOfResp2FewCommands) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"SUBSCRIBE", "a"}), Resp2({"subscribe", "a", ":1"}));
  client.Expect(Request({"PING"}), Resp2({"pong", ""}));
  client.Expect(Request({"PING", "hi"}), Resp2({"pong", "hi"}));
  client.Expect(Request({"GET", "x"}), NotAllowed("get"));
  client.Expect(Request({"CLIENT", "LIST"}), NotAllowed("client|list"));
  client.Expect(Request({"PUBLISH", "a", "m"}), NotAllowed("publish"));
  client.Expect(Request({"HELLO", "3"}), NotAllowed("hello"));
  client.Expect(Request({"MULTI"}), NotAllowed("multi"));
  client.Expect(Request({"GET"}), "-ERR wrong number of arguments for 'get' command\r\n");
  client.Expect(Request({"RESET"}), "+RESET\r\n");
  client.Expect(Request({"GET", "x"}), "$-1\r\n");
  client.Expect(Request({"PUBLISH", "a", "m"}), ":0\r\n");
  client.Expect(Request({"SUBSCRIBE", "a"}), Resp2({"subscribe", "a", ":1"}));
  client.Expect(Request({"QUIT"}), "+OK\r\n");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(ChannelsTest, DeliversToChannelsPatternsAndShards) {
  ASSERT_NO_FATAL_FAILURE(OpenThreads(3));
  Connection one = Connect();
  Connection two = Connect();
  Connection publisher = Connect();
  one.Expect(Request({"SUBSCRIBE", "news"}), Resp2({"subscribe", "news", ":1"}));
  one.Expect(Request({"PSUBSCRIBE", "n*"}), Resp2({"psubscribe", "n*", ":2"}));
  Speak3(two);
  two.Expect(Request({"SUBSCRIBE", "news"}), Resp3({"subscribe", "news", ":1"}));
  two.Expect(Request({"SSUBSCRIBE", "news"}), Resp3({"ssubscribe", "news", ":1"}));
  publisher.Expect(Request({"PUBLISH", "news", "a\r\nb"}), ":3\r\n");
  publisher.Expect(Request({"PUBLISH", "nothing", ""}), ":1\r\n");
  publisher.Expect(Request({"PUBLISH", "others", "x"}), ":0\r\n");
  publisher.Expect(Request({"SPUBLISH", "news", "s"}), ":1\r\n");
  EXPECT_EQ(one.ReceiveLine(), "*3");  // of the channel first, as in Redis
  const std::string rest = Resp2({"message", "news", "a\r\nb"}).substr(4) +
                           Resp2({"pmessage", "n*", "news", "a\r\nb"}) +
                           Resp2({"pmessage", "n*", "nothing", ""});
  EXPECT_EQ(one.Receive(rest.size()), rest);
  const std::string of_two =
      Resp3({"message", "news", "a\r\nb"}) + Resp3({"smessage", "news", "s"});
  EXPECT_EQ(two.Receive(of_two.size()), of_two);
  // Any command, between messages.
  two.Expect(Request({"PUBLISH", "news", "own"}), ":3\r\n" + Resp3({"message", "news", "own"}));
  two.Expect(Request({"SET", "k", "v"}), "+OK\r\n");
}

TEST_F(ChannelsTest, TellsOfChannels) {
  ASSERT_NO_FATAL_FAILURE(OpenThreads(2));
  Connection client = Connect();
  Connection subscriber = Connect();
  client.Expect(Request({"PUBSUB", "CHANNELS"}), "*0\r\n");
  client.Expect(Request({"PUBSUB", "NUMSUB"}), "*0\r\n");
  subscriber.Expect(Request({"SUBSCRIBE", "a", "b"}),
                    Resp2({"subscribe", "a", ":1"}) + Resp2({"subscribe", "b", ":2"}));
  subscriber.Expect(Request({"PSUBSCRIBE", "a*"}), Resp2({"psubscribe", "a*", ":3"}));
  subscriber.Expect(Request({"SSUBSCRIBE", "s"}), Resp2({"ssubscribe", "s", ":1"}));
  client.Expect(Request({"PUBSUB", "CHANNELS", "b*"}), "*1\r\n$1\r\nb\r\n");
  client.Expect(Request({"PUBSUB", "NUMSUB", "a", "x"}), Resp2({"a", ":1", "x", ":0"}));
  client.Expect(Request({"PUBSUB", "NUMPAT"}), ":1\r\n");
  client.Expect(Request({"PUBSUB", "SHARDCHANNELS"}), "*1\r\n$1\r\ns\r\n");
  client.Expect(Request({"PUBSUB", "SHARDNUMSUB", "s"}), Resp2({"s", ":1"}));
  client.Expect(Request({"PUBSUB", "NUMPAT", "x"}),
                "-ERR wrong number of arguments for 'pubsub|numpat' command\r\n");
  client.Expect(Request({"PUBSUB", "CHANNELS", "a", "b"}), "-ERR syntax error\r\n");
  client.Send(Request({"CLIENT", "LIST", "TYPE", "pubsub"}));
  const std::string line = client.ReceiveBulk();
  EXPECT_NE(line.find(" flags=PU "), std::string::npos) << line;
  EXPECT_NE(line.find(" sub=2 psub=1 ssub=1 "), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  client.Send(Request({"CLIENT", "LIST", "TYPE", "normal"}));
  EXPECT_NE(client.ReceiveBulk().find(" flags=U db=0 sub=0 psub=0 ssub=0 "), std::string::npos);
  client.Expect(Request({"CLIENT", "KILL", "TYPE", "pubsub"}), ":1\r\n");
  EXPECT_TRUE(subscriber.IsClosed());
  // Its worker finds that out by itself.
  std::string left;
  do {
    client.Send(Request({"PUBSUB", "NUMPAT"}));
    left = client.ReceiveLine();
  } while (left != ":0");
  client.Expect(Request({"PUBSUB", "CHANNELS"}), "*0\r\n");
}

TEST_F(ChannelsTest, PublishesWithTransactions) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection subscriber = Connect();
  Connection client = Connect();
  subscriber.Expect(Request({"SUBSCRIBE", "c"}), Resp2({"subscribe", "c", ":1"}));
  client.Expect(Request({"MULTI"}), "+OK\r\n");
  client.Expect(Request({"PUBLISH", "c", "one"}), "+QUEUED\r\n");
  client.Expect(Request({"SET", "k", "v"}), "+QUEUED\r\n");
  client.Expect(Request({"PUBLISH", "c", "two"}), "+QUEUED\r\n");
  client.Expect(Request({"EXEC"}), "*3\r\n:1\r\n+OK\r\n:1\r\n");
  const std::string both = Resp2({"message", "c", "one"}) + Resp2({"message", "c", "two"});
  EXPECT_EQ(subscriber.Receive(both.size()), both);
  client.Expect(Request({"MULTI"}), "+OK\r\n");
  client.Expect(Request({"PUBLISH", "c", "never"}), "+QUEUED\r\n");
  client.Expect(
      Request({"SUBSCRIBE", "c"}),
      "-ERR subscribe cannot be part of a transaction in Gossamer: send it by itself\r\n");
  client.Expect(Request({"EXEC"}),
                "-EXECABORT Transaction discarded because of previous errors.\r\n");
  client.Expect(Request({"PUBLISH", "c", "last"}), ":1\r\n");
  const std::string last = Resp2({"message", "c", "last"});
  EXPECT_EQ(subscriber.Receive(last.size()), last);
  client.Expect(Request({"EVAL", "return redis.call('publish', 'c', 'm')", "0"}).c_str(), "-");
}

// A client of RESP3 reads long values while it gets messages: none is inside of a reply, and none
// is missing or out of order.
TEST_F(ChannelsTest, KeepsRepliesWhole) {
  ASSERT_NO_FATAL_FAILURE(OpenThreads(2));
  constexpr int kMessages = 3000;
  Connection subscriber = Connect();
  Connection publisher = Connect();
  const std::string value(600 * 1024, 'v');
  std::vector<std::string> mget{"MGET"};
  std::string values = "*16\r\n";
  for (int i = 0; i < 16; ++i) {
    publisher.Expect(Request({"SET", "k" + std::to_string(i), value}), "+OK\r\n");
    mget.push_back("k" + std::to_string(i));
    values += Bulk(value);
  }
  Speak3(subscriber);
  subscriber.Expect(Request({"SUBSCRIBE", "c"}), Resp3({"subscribe", "c", ":1"}));
  std::thread publishing([&] {
    for (int i = 0; i < kMessages; ++i) {
      publisher.Expect(Request({"PUBLISH", "c", std::to_string(i)}), ":1\r\n");
    }
  });
  int next = 0;
  int replies = 0;
  for (int round = 0; round < 8; ++round) subscriber.Send(Request(mget) + Request({"KEYS", "k*"}));
  while (next < kMessages || replies < 16) {
    const std::string header = subscriber.ReceiveLine();
    if (header == ">3") {
      const std::string rest = Resp3({"message", "c", std::to_string(next++)}).substr(4);
      ASSERT_EQ(subscriber.Receive(rest.size()), rest);
    } else {
      ASSERT_EQ(header, "*16");
      for (int i = 0; i < 16; ++i) {
        const std::string one = subscriber.ReceiveBulk();
        ASSERT_TRUE(replies % 2 == 1 ? one.starts_with('k') : one == value);
      }
      ++replies;
    }
  }
  publishing.join();
}

TEST_F(ChannelsTest, KeepsTheOrderOfPublishers) {
  ASSERT_NO_FATAL_FAILURE(OpenThreads(3));
  constexpr int kPublishers = 4;
  constexpr int kMessages = 2000;
  Connection subscriber = Connect();
  subscriber.Expect(Request({"SUBSCRIBE", "c"}), Resp2({"subscribe", "c", ":1"}));
  std::vector<std::thread> threads;
  for (int number = 0; number < kPublishers; ++number) {
    threads.emplace_back([this, number] {
      Connection publisher = Connect();
      std::string requests;
      std::string replies;
      for (int i = 0; i < kMessages; ++i) {
        requests += Request({"PUBLISH", "c", std::to_string(number) + " " + std::to_string(i)});
        replies += ":1\r\n";
      }
      publisher.Expect(requests, replies);
    });
  }
  std::vector<int> next(kPublishers, 0);
  for (int i = 0; i < kPublishers * kMessages; ++i) {
    ASSERT_EQ(subscriber.ReceiveLine(), "*3");
    subscriber.ReceiveBulk();
    subscriber.ReceiveBulk();
    const std::string text = subscriber.ReceiveBulk();
    const size_t number = std::stoul(text);
    ASSERT_EQ(text, std::to_string(number) + " " + std::to_string(next[number]++));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ChannelsTest, DisconnectsASubscriberThatDoesNotRead) {
  ASSERT_NO_FATAL_FAILURE(OpenThreads(2));
  Connection slow = Connect();
  Connection good = Connect();
  Connection publisher = Connect();
  slow.Expect(Request({"SUBSCRIBE", "c"}), Resp2({"subscribe", "c", ":1"}));
  good.Expect(Request({"SUBSCRIBE", "c"}), Resp2({"subscribe", "c", ":1"}));
  const std::string text(1 << 20, 'm');
  const std::string message = Resp2({"message", "c", text});
  int times = 0;
  std::string reply;
  do {
    ASSERT_LT(++times, 100);
    publisher.Send(Request({"PUBLISH", "c", text}));
    reply = publisher.ReceiveLine();
    ASSERT_EQ(good.Receive(message.size()), message);
  } while (reply == ":2");
  EXPECT_GT(times, 32);
  const std::string got = slow.ReceiveToEnd();
  EXPECT_LT(got.size(), 40u << 20);
  publisher.Send(Request({"INFO", "stats"}));
  EXPECT_NE(publisher.ReceiveBulk().find("client_output_buffer_limit_disconnections:1\r\n"),
            std::string::npos);
}

TEST_F(ChannelsTest, BoundsTheMemoryOfMessages) {
  GatewayOptions options;
  options.max_query_bytes = 1 << 20;
  options.client_memory_bytes = 8 << 20;
  ASSERT_NO_FATAL_FAILURE(Open(options));
  Connection slow = Connect();
  Connection publisher = Connect();
  slow.Expect(Request({"SUBSCRIBE", "c"}), Resp2({"subscribe", "c", ":1"}));
  const std::string text(100 * 1024, 'm');
  constexpr int kTimes = 200;
  for (int i = 0; i < kTimes; ++i) {
    publisher.Send(Request({"PUBLISH", "c", text}));
    const std::string reply = publisher.ReceiveLine();
    ASSERT_TRUE(reply == ":1" || reply == ":0") << reply;
    ASSERT_LT(gateway_->memory().held(ClientMemory::Use::kAnswers), 4u << 20);
  }
  EXPECT_LT(slow.ReceiveToEnd().size(), kTimes * text.size() / 2);
  publisher.Expect(Request({"PING"}), "+PONG\r\n");
}

// One reply, as it comes.
std::string ReceiveReply(Connection& client) {
  const std::string line = client.ReceiveLine();
  std::string text = line + "\r\n";
  const int count = line.size() > 1 ? std::atoi(line.c_str() + 1) : 0;
  switch (line.empty() ? '-' : line[0]) {
    case '$':
    case '=':
      if (count >= 0) text += client.Receive(static_cast<size_t>(count) + 2);
      break;
    case '*':
    case '~':
    case '>':
    case '%':
      for (int i = 0; i < (line[0] == '%' ? 2 * count : count); ++i) text += ReceiveReply(client);
      break;
    default: break;
  }
  return text;
}

// What client libraries ask when they connect, and how the replies begin. In one pipeline, as most
// send it.
class HandshakeTest : public ChannelsTest {
 protected:
  struct Exchange {
    std::vector<std::string> request;
    std::string begin;
  };

  static void Check(Connection client, const std::vector<Exchange>& exchanges) {
    std::string requests;
    for (const Exchange& one : exchanges) requests += Request(one.request);
    client.Send(requests);
    for (const Exchange& one : exchanges) {
      const std::string reply = ReceiveReply(client);
      EXPECT_TRUE(reply.starts_with(one.begin)) << one.request[0] << " " << reply;
    }
  }
};

TEST_F(HandshakeTest, OfStackExchangeRedis) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Check(Connect(), {{{"HELLO", "3", "SETNAME", "web-1"}, "%7\r\n"},
                    {{"CLIENT", "SETNAME", "web-1"}, "+OK"},
                    {{"CLIENT", "SETINFO", "lib-name", "SE.Redis"}, "+OK"},
                    {{"CLIENT", "SETINFO", "lib-ver", "2.8.41"}, "+OK"},
                    {{"CLIENT", "ID"}, ":1\r\n"},
                    {{"CONFIG", "GET", "timeout"}, "%1\r\n$7\r\ntimeout\r\n$1\r\n0\r\n"},
                    {{"CONFIG", "GET", "slave-read-only"}, "%1\r\n"},
                    {{"CONFIG", "GET", "replica-read-only"}, "%1\r\n"},
                    {{"CONFIG", "GET", "databases"}, "%1\r\n$9\r\ndatabases\r\n$1\r\n1\r\n"},
                    {{"INFO", "replication"}, "="},
                    {{"INFO", "server"}, "="},
                    {{"CLUSTER", "NODES"}, "-ERR there are no slots"},
                    {{"SENTINEL", "MASTERS"}, "-ERR unknown command 'SENTINEL'"},
                    {{"GET", "__Booksleeve_TieBreak"}, "_\r\n"},
                    {{"ECHO", "\x01\x02"}, "$2\r\n\x01\x02"}});
  Check(Connect(), {{{"ECHO", "x"}, "$1\r\nx"},
                    {{"SUBSCRIBE", "__Booksleeve_MasterChanged"}, "*3\r\n$9\r\nsubscribe\r\n"},
                    {{"PING"}, "*2\r\n$4\r\npong\r\n"},
                    {{"UNSUBSCRIBE", "__Booksleeve_MasterChanged"}, "*3\r\n$11\r\nunsubscribe"}});
}

TEST_F(HandshakeTest, OfLettuceAndJedis) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Check(Connect(), {{{"HELLO", "3", "SETNAME", "pool-1"}, "%7\r\n"},
                    {{"CLIENT", "SETINFO", "lib-name", "Lettuce"}, "+OK"},
                    {{"CLIENT", "SETINFO", "lib-ver", "6.5.5.RELEASE/c5a0a5b"}, "+OK"},
                    {{"CLIENT", "MAINT_NOTIFICATIONS", "on", "moving-endpoint-type", "none"},
                     "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'"},
                    {{"PING"}, "+PONG"}});
  Check(Connect(), {{{"CLIENT", "SETNAME", "pool-1"}, "+OK"},
                    {{"CLIENT", "SETINFO", "lib-name", "jedis"}, "+OK"},
                    {{"READONLY"}, "-ERR there are no slots"},
                    {{"SELECT", "0"}, "+OK"},
                    {{"PING"}, "+PONG"}});
}

TEST_F(HandshakeTest, OfNodeLibraries) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Check(Connect(), {{{"info"}, "$"},
                    {{"client", "SETINFO", "LIB-NAME", "ioredis"}, "+OK"},
                    {{"select", "0"}, "+OK"},
                    {{"config", "set", "notify-keyspace-events", "Ex"},
                     "-ERR CONFIG SET failed (possibly related to argument "
                     "'notify-keyspace-events') - there are no events of keys in Gossamer"}});
  Check(Connect(), {{{"HELLO", "3"}, "%7\r\n"},
                    {{"CLIENT", "SETINFO", "LIB-NAME", "node-redis"}, "+OK"},
                    {{"CLIENT", "TRACKING", "ON"}, "-ERR clients are not told of changes"},
                    {{"CLIENT", "TRACKING", "OFF"}, "+OK"},
                    {{"COMMAND"}, "*"}});
}

TEST_F(HandshakeTest, OfGoRedisAndRubysRedisClient) {
  GatewayOptions options;
  ASSERT_TRUE(options.users.Add("default", "secret"));
  ASSERT_NO_FATAL_FAILURE(Open(std::move(options)));
  Check(Connect(), {{{"hello", "3", "auth", "default", "secret", "setname", "worker"}, "%7\r\n"},
                    {{"client", "maint_notifications", "on"}, "-ERR unknown subcommand"},
                    {{"client", "setinfo", "LIB-NAME", "go-redis(,go1.24)"}, "+OK"},
                    {{"client", "getname"}, "$6\r\nworker"},
                    {{"readonly"}, "-ERR there are no slots"}});
  Check(Connect(), {{{"HELLO", "3", "AUTH", "default", "secret"}, "%7\r\n"},
                    {{"SELECT", "0"}, "+OK"},
                    {{"INFO"}, "="},
                    {{"CLIENT", "NO-TOUCH", "ON"}, "+OK"},
                    {{"CLIENT", "NO-EVICT", "ON"}, "+OK"},
                    {{"CONFIG", "GET", "maxmemory-policy"}, "%1\r\n$16\r\nmaxmemory-policy"}});
  Check(Connect(), {{{"CLIENT", "REPLY", "ON"}, "-NOAUTH"}, {{"SUBSCRIBE", "c"}, "-NOAUTH"}});
}

TEST_F(HandshakeTest, OfModesOfClients) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Check(Connect(), {{{"CLIENT", "REPLY", "ON"}, "+OK"},
                    {{"CLIENT", "REPLY", "OFF"}, "-ERR every request is answered in Gossamer"},
                    {{"CLIENT", "REPLY", "SKIP"}, "-ERR every request is answered in Gossamer"},
                    {{"CLIENT", "REPLY", "maybe"}, "-ERR syntax error"},
                    {{"CLIENT", "NO-TOUCH", "skip"}, "-ERR syntax error"},
                    {{"CLIENT", "TRACKING", "off"}, "+OK"},
                    {{"CLIENT", "SETINFO", "lib", "x"}, "-ERR Unrecognized option 'lib'"},
                    {{"CONFIG", "SET", "notify-keyspace-events", ""}, "+OK"}});
}

}  // namespace
}  // namespace gossamer::gateway
