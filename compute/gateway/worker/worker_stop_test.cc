// What clients get when a gateway stops, or goes over to another store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>

#include "compute/gateway/testing/gateway_fixture.h"

namespace gossamer::gateway {
namespace {

using WorkerStopTest = GatewayTest;

// A client that goes on sending gets the answers to what was taken, whole ones, and then the end of
// the connection: no reset.
TEST_F(WorkerStopTest, AnswersOfALongPipelineArrive) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection client = Connect();
  client.Expect("SET k v\r\n", "+OK\r\n");
  std::string requests;
  for (int i = 0; i < 10'000; ++i) requests += "GET k\r\n";
  // As long as somebody takes it.
  std::thread sender([&] {
    while (client.TrySend(requests)) {
    }
  });
  const std::string answer = "$1\r\nv\r\n";
  EXPECT_EQ(client.Receive(answer.size()), answer);
  std::thread stopper([this] { gateway_.reset(); });
  std::string answers = client.ReceiveToEnd();
  stopper.join();
  sender.join();
  EXPECT_EQ(client.last_error(), 0) << "the connection was reset";
  ASSERT_EQ(answers.size() % answer.size(), 0u);
  for (size_t at = 0; at < answers.size(); at += answer.size()) {
    ASSERT_EQ(answers.substr(at, answer.size()), answer);
  }
}

// A client that was accepted and not looked at yet.
TEST_F(WorkerStopTest, ResetsNoClientThatHasJustCome) {
  for (int round = 0; round < 20; ++round) {
    ASSERT_NO_FATAL_FAILURE(Open());
    Connection other = Connect();
    other.Expect("PING\r\n", "+PONG\r\n");
    Connection client = Connect();
    client.Send("GET k\r\nGET k\r\n");
    other.Expect("PING\r\n", "+PONG\r\n");  // an answer behind the connection's arrival
    std::thread stopper([this] { gateway_.reset(); });
    const std::string answers = client.ReceiveToEnd();
    stopper.join();
    ASSERT_EQ(client.last_error(), 0) << "round " << round << ": the connection was reset";
    ASSERT_EQ(answers.size() % 5, 0u);
  }
}

// Requests of a pipeline go to the store before, and from some request on to the next one, which
// has other parameters. Nothing uses the store before after that: it is destroyed at once.
TEST_F(WorkerStopTest, GoesOverToAnotherStoreBetweenRequests) {
  GatewayOptions options;
  options.threads = 2;
  ASSERT_NO_FATAL_FAILURE(Open(options));
  Connection walker = Connect();
  Connection reader = Connect();
  reader.Expect(Request({"SET", "long", std::string(1 << 20, 'v')}), "+OK\r\n");
  Connection client = Connect();
  constexpr int kRequests = 30'000;
  std::thread sender([&] {
    std::string requests;
    for (int i = 0; i < kRequests; ++i) {
      requests += Request({"SET", "key" + std::to_string(i), "v"});
      if (i % 100 == 0) client.Send(std::exchange(requests, {}));
    }
    client.Send(requests);
  });
  const std::string ok = "+OK\r\n";
  EXPECT_EQ(client.Receive(ok.size()), ok);
  walker.Send("KEYS *\r\n");
  reader.Send("MGET long long long long\r\n");

  LocalOptions local;
  local.memory_bytes = uint64_t{64} << 20;
  local.parameters.max_key_bytes = 40;
  std::unique_ptr<Store> next = std::move(Store::OpenLocal(local).value());
  const Status used = gateway_->Use(*next);
  ASSERT_TRUE(used) << used.error().ToString();
  const auto has_key = [](Session& session, int i) {
    return session.Get("key" + std::to_string(i)).has_value();
  };
  int first = 0;  // of the next store
  {
    const auto before = std::move(store_->NewSession().value());
    while (first < kRequests && has_key(*before, first)) ++first;
  }
  store_ = std::move(next);
  for (int i = 1; i < kRequests; ++i) ASSERT_EQ(client.Receive(ok.size()), ok) << i;
  sender.join();
  const auto session = std::move(store_->NewSession().value());
  for (int i = 0; i < kRequests; ++i) ASSERT_EQ(has_key(*session, i), i >= first) << i;
  EXPECT_THAT(walker.ReceiveLine(),
              testing::AnyOf(testing::StartsWith("*"), testing::StartsWith("-UNREACHABLE")));
  EXPECT_EQ(reader.ReceiveLine(), "*4");
  client.Expect("GET key1\r\n", first > 1 ? "$-1\r\n" : "$1\r\nv\r\n");
  client.Expect(Request({"DBSIZE"}), ":" + std::to_string(kRequests - first) + "\r\n");
  client.Send(Request({"SET", std::string(41, 'k'), "v"}));
  EXPECT_THAT(client.ReceiveLine(), testing::StartsWith("-ERR"));
}

TEST_F(WorkerStopTest, DoesNotWaitForClientsThatDoNotRead) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Connection writer = Connect();
  writer.Expect(Request({"SET", "k", std::string(1 << 20, 'v')}), "+OK\r\n");
  Connection silent = Connect();
  for (int i = 0; i < 8; ++i) silent.Send("GET k\r\n");
  Connection half = Connect();
  half.Send("*2\r\n$3\r\nGET\r\n$10\r\nab");
  writer.Expect("PING\r\n", "+PONG\r\n");
  gateway_.reset();
}

}  // namespace
}  // namespace gossamer::gateway
