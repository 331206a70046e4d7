// Memory servers of a simulated network that stop, slow down and return, and endpoints that are
// destroyed while the servers are lost.
#include <gtest/gtest.h>

#include <vector>

#include "common/fabric/open/open_port.h"
#include "common/fabric/sim/test_cluster.h"

namespace gossamer::test {
namespace {

using namespace std::chrono_literals;
using Clock = Endpoint::Clock;

Task<void> CallOnce(SimClient& client, Clock::time_point& answered) {
  ControlCall call;
  call.server = kServer;
  call.request_bytes = 1;
  co_await client.endpoint().Execute(call);
  answered = client.scheduler().Now();
}

Task<void> WriteOnce(SimClient& client, Clock::time_point& answered) {
  co_await client.Fill(0, 64, 1);
  answered = client.scheduler().Now();
}

TEST(SimServerFaultTest, AStoppedServerAnswersLaterAndVerbsGoOn) {
  SimCluster cluster(1, "none", 2);
  const auto until = cluster.network().Now() + 5ms;
  cluster.network().StopServer(cluster.memory().address(), until);
  Clock::time_point called;
  Clock::time_point written;
  cluster.Spawn(0, CallOnce(cluster.client(0), called));
  cluster.Spawn(1, WriteOnce(cluster.client(1), written));
  cluster.Run();
  EXPECT_GE(called, until);
  EXPECT_LT(written, until - 4ms);
  EXPECT_EQ(cluster.network().counters().stopped_servers, 1U);
}

Task<void> CallLater(SimClient& client, std::chrono::microseconds after, int number,
                     std::vector<int>& answered) {
  co_await client.scheduler().SleepFor(after);
  Clock::time_point at;
  co_await CallOnce(client, at);
  answered.push_back(number);
}

Task<void> StopLater(SimCluster& cluster, std::chrono::microseconds after,
                     std::chrono::milliseconds pause) {
  co_await cluster.client(0).scheduler().SleepFor(after);
  cluster.network().StopServer(cluster.memory().address(), cluster.network().Now() + pause);
}

// When the second call arrives, the server's stop already lasts as long as the first call finally
// waits.
TEST(SimServerFaultTest, AServerStoppedForLongerAnswersCallsInTheirOrder) {
  SimCluster cluster(1, "none", 1);
  cluster.network().StopServer(cluster.memory().address(), cluster.network().Now() + 1ms);
  std::vector<int> answered;
  cluster.Spawn(0, CallLater(cluster.client(0), 0us, 1, answered));
  cluster.Spawn(0, StopLater(cluster, 500us, 5ms));
  cluster.Spawn(0, CallLater(cluster.client(0), 600us, 2, answered));
  cluster.Run();
  EXPECT_EQ(answered, (std::vector{1, 2}));
}

TEST(SimServerFaultTest, ASlowServerTakesLongerForAWhile) {
  SimCluster cluster(1, "none", 1);
  const auto start = cluster.network().Now();
  cluster.network().SlowServer(cluster.memory().address(), start + 100ms, 10ms);
  Clock::time_point written;
  cluster.Spawn(0, WriteOnce(cluster.client(0), written));
  cluster.Run();
  EXPECT_GT(written - start, 100us);
  EXPECT_LE(written - start, 11ms);
}

// What a session left on a broken queue pair may land after the session is gone.
TEST(SimServerFaultTest, DestroyingAnEndpointThatLostItsQueuePairSettlesNothing) {
  uint64_t later = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SimOptions options = SimCluster::Options(seed, "break");
    options.verbs_per_break = 3;
    SimCluster cluster(options, 1);
    auto client = std::make_unique<SimClient>(cluster.network(), 7, cluster.memory().address());
    Clock::time_point written;
    client->scheduler().Spawn(WriteOnce(*client, written));
    client->scheduler().RunUntil(0);
    const bool was_there = cluster.region()[0] == std::byte{1};
    client.reset();
    EXPECT_EQ(cluster.region()[0] == std::byte{1}, was_there);
    const auto end = cluster.network().Now() + 1s;
    while (cluster.network().Now() < end && cluster.network().RunOne()) {
    }
    later += !was_there && cluster.region()[0] == std::byte{1} ? 1 : 0;
  }
  EXPECT_GT(later, 5U);
}

TEST(SimServerFaultTest, AServerStartsAtTheAddressOfOneThatIsGone) {
  SimNetwork network(SimCluster::Options(1, "none"));
  TestControlHandler handler;
  MemoryPortOptions options;
  options.region_bytes = 4096;
  options.lock_table_bytes = 4096;
  options.network = &network;
  auto first = OpenMemoryPort(FabricKind::kSim, options).value();
  const std::string address = first->address();
  options.listen = address;
  EXPECT_FALSE(OpenMemoryPort(FabricKind::kSim, options)) << "its address is not free";
  first.reset();
  const auto second = OpenMemoryPort(FabricKind::kSim, options);
  ASSERT_TRUE(second);
  EXPECT_EQ(second.value()->address(), address);
  options.listen = "sim:99";
  EXPECT_FALSE(OpenMemoryPort(FabricKind::kSim, options));
}

}  // namespace
}  // namespace gossamer::test
