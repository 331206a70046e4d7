// Answers of more bytes than the gateway makes at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "compute/gateway/testing/gateway_fixture.h"

namespace gossamer::gateway {
namespace {

TEST_F(GatewayTest, ASlowReaderDoesNotGrowTheOutputWithoutBound) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  const std::string value(1'000'000, 'v');
  client.Expect(Request({"SET", "k", value}), "+OK\r\n");
  std::string requests;
  for (int i = 0; i < 300; ++i) requests += Request({"GET", "k"});
  std::thread sender([&] { client.Send(requests); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const std::string reply = Bulk(value);
  for (int i = 0; i < 300; ++i) ASSERT_EQ(client.Receive(reply.size()), reply);
  sender.join();
}

// Its socket takes all answers at once, or a part of them, in turn.
TEST_F(GatewayTest, ARepeatedReaderOfLongAnswersGetsAll) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  const std::string value(1'000'000, 'v');
  client.Expect(Request({"SET", "k", value}), "+OK\r\n");
  client.Expect(Request({"SET", "short", "s"}), "+OK\r\n");
  const std::string reply = Bulk(value);
  for (int i = 0; i < 5; ++i) {
    client.Send(Request({"GET", "k"}) + Request({"GET", "short"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_EQ(client.Receive(reply.size()), reply);
    ASSERT_EQ(client.Receive(Bulk("s").size()), Bulk("s"));
    for (int j = 0; j < 3; ++j) client.Expect(Request({"GET", "short"}), Bulk("s"));
  }
}

// So many that the gateway does not have all of them in memory before it answers.
TEST_F(GatewayTest, AnswersReadsOfManyLongValuesInTheirOrder) {
  ASSERT_NO_FATAL_FAILURE(Open());
  constexpr size_t kValueBytes = size_t{1} << 20;
  Connection client = Connect();
  std::string requests;
  std::string replies;
  std::vector<std::string> values;
  for (const char c : {'a', 'b', 'c'}) {
    values.push_back("$1048576\r\n" + std::string(kValueBytes, c) + "\r\n");
    client.Expect(Request({"SET", std::string(1, c), std::string(kValueBytes, c)}), "+OK\r\n");
  }
  std::vector<std::string> mget{"MGET"};
  std::string many = "*70\r\n";
  for (size_t i = 0; i < 70; ++i) {
    mget.push_back(i % 7 == 6 ? "absent" : std::string(1, static_cast<char>('a' + i % 3)));
    many += i % 7 == 6 ? "$-1\r\n" : values[i % 3];
  }
  std::vector<std::string> exists = mget;
  exists[0] = "EXISTS";
  requests += Request({"GET", "b"}) + "PING\r\n" + Request(exists) + Request(mget);
  replies += values[1] + "+PONG\r\n:60\r\n" + many;
  requests +=
      Request({"STRLEN", "c"}) + Request({"GETRANGE", "a", "0", "2"}) + Request({"SET", "a", "x"});
  replies += ":1048576\r\n$3\r\naaa\r\n+OK\r\n";
  requests += Request({"GET", "a"}) + Request({"MGET", "absent", "b"});
  replies += "$1\r\nx\r\n*2\r\n$-1\r\n" + values[1];
  client.Send(requests);
  EXPECT_TRUE(client.Receive(replies.size()) == replies);
}

// What happens between the answers to two short requests of one client is a turn of the worker, or
// two. INFO tells how many bytes it has sent by then.
TEST_F(GatewayTest, AShortRequestWaitsForFewBytesOfOthers) {
  GatewayOptions options;
  options.patience = std::chrono::minutes(10);  // the last of the others take nothing for long
  ASSERT_NO_FATAL_FAILURE(Open(options));
  constexpr size_t kClients = 300;
  const std::string value(size_t{1} << 20, 'v');
  Connection client = Connect();
  client.Expect(Request({"SET", "k", value}), "+OK\r\n");
  std::vector<Connection> others;
  others.reserve(kClients);
  for (size_t i = 0; i < kClients; ++i) others.push_back(Connect());
  constexpr size_t kRounds = 200;
  const std::string pair = Request({"INFO", "stats"}) + Request({"PING"});
  std::string requests;
  for (size_t i = 0; i < kRounds; ++i) requests += pair;
  for (Connection& other : others) other.Send(Request({"GET", "k"}));
  client.Send(requests);
  // Each takes all that comes, in whichever order they are answered.
  std::vector<std::thread> readers;
  readers.reserve(kClients);
  for (Connection& other : others) {
    readers.emplace_back([&other, &value] { EXPECT_TRUE(other.ReceiveBulk() == value); });
  }
  uint64_t before = 0;
  uint64_t most = 0;
  for (size_t i = 0; i < kRounds; ++i) {
    const std::string info = client.ReceiveBulk();
    const std::string name = "total_net_output_bytes:";
    const uint64_t now = std::stoull(info.substr(info.find(name) + name.size()));
    if (i != 0) most = std::max(most, now - before);
    before = now;
    ASSERT_EQ(client.ReceiveLine(), "+PONG");
  }
  for (std::thread& reader : readers) reader.join();
  RecordProperty("most_bytes", std::to_string(most));
  // Of each turn kTurnBytes, and what comes last, and a part of a long read.
  EXPECT_LT(most, uint64_t{9} << 20) << "the answers have 300 MiB";
}

// Others' long answers keep the memory for answers full, and each of them asks anew at once.
TEST_F(GatewayTest, AShortReadIsNotStarvedByLongOnes) {
  GatewayOptions options;
  options.client_memory_bytes = uint64_t{48} << 20;
  options.patience = std::chrono::minutes(10);
  ASSERT_NO_FATAL_FAILURE(Open(options));
  constexpr uint64_t kClients = 100;
  constexpr int kReads = 20;
  const std::string value(size_t{1} << 20, 'v');
  Connection client = Connect();
  client.Expect(Request({"SET", "k", value}), "+OK\r\n");
  client.Expect(Request({"SET", "short", std::string(100, 's')}), "+OK\r\n");
  std::vector<Connection> others;
  for (uint64_t i = 0; i < kClients; ++i) others.push_back(Connect());
  std::atomic<uint64_t> answers = 0;  // to the others
  std::atomic<bool> is_done = false;
  std::vector<std::thread> readers;
  for (Connection& other : others) {
    readers.emplace_back([&] {
      while (!is_done && answers < 40 * kClients) {
        other.Send(Request({"GET", "k"}));
        EXPECT_EQ(other.ReceiveBulk().size(), value.size());
        ++answers;
      }
    });
  }
  uint64_t most = 0;
  for (int i = 0; i < kReads; ++i) {
    const uint64_t before = answers;
    client.Expect(Request({"GET", "short"}), Bulk(std::string(100, 's')));
    most = std::max<uint64_t>(most, answers - before);
  }
  is_done = true;
  for (std::thread& reader : readers) reader.join();
  RecordProperty("most_answers", std::to_string(most));
  // One after the other, half of them from batches that came later.
  EXPECT_LE(most, 3 * kClients);
}

// What came before a request that ends the connection is done, also if it takes many parts.
TEST_F(GatewayTest, DoesLongReadsBeforeAProtocolError) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect(Request({"SET", "k", "v"}), "+OK\r\n");
  std::vector<std::string> mget(5001, "k");
  mget[0] = "MGET";
  client.Send(Request(mget) + Request({"SET", "behind", "1"}) + "*1\r\n:1\r\n");
  std::string replies = "*5000\r\n";
  for (int i = 0; i < 5000; ++i) replies += "$1\r\nv\r\n";
  replies += "+OK\r\n-ERR Protocol error: expected '$', got ':'\r\n";
  EXPECT_EQ(client.ReceiveToEnd(), replies);
  Connect().Expect(Request({"GET", "behind"}), Bulk("1"));
}

// They are known without the store, and have more bytes than one batch takes.
TEST_F(GatewayTest, AnswersManyLongAnswersThatAreKnown) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  const std::string message(100'000, 'm');
  std::string requests;
  std::string replies;
  for (int i = 0; i < 100; ++i) {
    requests += Request({"ECHO", message}) + "PING\r\n";
    replies += Bulk(message) + "+PONG\r\n";
  }
  std::thread sender([&] { client.Send(requests); });
  EXPECT_TRUE(client.Receive(replies.size()) == replies);
  sender.join();
}

}  // namespace
}  // namespace gossamer::gateway
