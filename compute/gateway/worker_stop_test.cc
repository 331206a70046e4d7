// What clients get when a gateway stops.
#include <gtest/gtest.h>

#include <thread>

#include "compute/gateway/testing/gateway_fixture.h"

namespace gossamer::gateway {
namespace {

using WorkerStopTest = GatewayTest;

// A client that goes on sending gets the answers to what was taken, whole ones, and then the end of the connection: no reset.
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
