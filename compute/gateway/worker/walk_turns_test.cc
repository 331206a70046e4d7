#include "compute/gateway/worker/walk_turns.h"

#include <gtest/gtest.h>

#include <vector>

#include "compute/gateway/testing/gateway_fixture.h"
#include "compute/testing/fake_store.h"

namespace gossamer::gateway {
namespace {

// A task that runs by itself once it has begun.
struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};

Detached WalkForEver(WalkTurns& turns, int name, std::vector<int>& slices) {
  WalkTurns::Slice slice(turns);
  while (!turns.must_end()) {
    if (!slice.IsOver()) continue;
    slices.push_back(name);
    co_await slice.Next();
  }
  slices.push_back(-name);
}

TEST(WalkTurnsTest, OneWalkATurnInTheOrderInWhichTheyWait) {
  WalkTurns turns;
  std::vector<int> slices;
  for (const int name : {1, 2, 3}) WalkForEver(turns, name, slices);
  for (int turn = 0; turn < 4; ++turn) turns.GiveTurn();
  EXPECT_EQ(slices, (std::vector{1, 2, 3, 1, 2, 3, 1}));
  slices.clear();
  turns.EndAll("ERR this ends");
  for (int turn = 0; turn < 4; ++turn) turns.GiveTurn();
  EXPECT_EQ(slices, (std::vector{-2, -3, -1}));
}

// Walks that never end by themselves, and never wait for the store: others are served all the same,
// and the gateway stops.
class EndlessWalksTest : public GatewayTest {
 protected:
  void SetUp() override {
    fake_.state().map = {{"a", "1"}, {"b", "2"}};
    fake_.state().endless_scans = true;
    path_ = testing::TempDir() + "walks_" + std::to_string(getpid()) + ".sock";
    GatewayOptions options;
    options.listen = {"unix:" + path_};
    gateway_ = std::move(Gateway::Start(options, fake_).value());
  }
  void TearDown() override { gateway_.reset(); }

  FakeStore fake_;
};

TEST_F(EndlessWalksTest, OthersAreServed) {
  std::vector<Connection> walkers;
  // More than may be in flight: the last ones wait.
  for (int i = 0; i < 100; ++i) {
    walkers.push_back(Connect());
    walkers.back().Send("DBSIZE\r\n");
  }
  Connection client = Connect();
  for (int i = 0; i < 100; ++i) client.Expect("GET a\r\n", "$1\r\n1\r\n");
  client.Expect("SET c 3\r\n", "+OK\r\n");
}

TEST_F(EndlessWalksTest, EndWithAnErrorWhenTheGatewayStops) {
  std::vector<Connection> walkers;
  for (const char* const request : {"DBSIZE\r\n", "KEYS *x*\r\n", "GOSSAMER.SCAN PREFIX b\r\n"}) {
    walkers.push_back(Connect());
    walkers.back().Expect("GET a\r\n", "$1\r\n1\r\n");
    walkers.back().Send(request);
  }
  // They have begun once another one's request, sent later, is answered.
  Connect().Expect("GET a\r\n", "$1\r\n1\r\n");
  gateway_.reset();
  for (Connection& walker : walkers) {
    const std::string line = walker.ReceiveLine();
    EXPECT_TRUE(line == "-ERR this compute server is stopping" ||
                line == "-ERR the reply would be too long: use LIMIT")
        << line;
    EXPECT_TRUE(walker.IsClosed());
  }
}

}  // namespace
}  // namespace gossamer::gateway
