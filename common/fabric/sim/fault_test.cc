// The fault log of a simulated network.
#include <gtest/gtest.h>

#include "common/fabric/sim/test_cluster.h"

namespace gossamer::test {
namespace {

using namespace std::chrono_literals;
using Kind = SimFault::Kind;

// Writes until that fails, then replaces the queue pair.
Task<void> WriteUntilLost(SimClient& client) {
  for (VerbStatus status = VerbStatus::kSuccess; status == VerbStatus::kSuccess;) {
    status = co_await client.Fill(0, 64, 1);
  }
  while (!client.endpoint().Reconnect(kServer)) co_await client.scheduler().SleepFor(10us);
}

TEST(SimFaultTest, ABreakIsMetUntilTheQueuePairIsReplaced) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimOptions options = SimCluster::Options(seed, "break");
    options.verbs_per_break = 20;
    SimCluster cluster(options, 2);
    const auto start = cluster.network().Now();
    cluster.Spawn(1, WriteUntilLost(cluster.client(1)));
    cluster.Run();
    const std::vector<SimFault>& faults = cluster.network().faults_met();
    ASSERT_EQ(faults.size(), 1U);
    EXPECT_EQ(faults[0].kind, Kind::kBreak);
    EXPECT_EQ(faults[0].client_uuid, 2U);
    EXPECT_EQ(faults[0].endpoint_id, cluster.network().IdOf(cluster.client(1).endpoint()));
    EXPECT_EQ(faults[0].server_number, 0U);
    EXPECT_TRUE(faults[0].has_owner);
    EXPECT_GT(faults[0].from, start);
    EXPECT_GE(faults[0].until, faults[0].from);
    EXPECT_LE(faults[0].until, cluster.network().Now());
  }
}

TEST(SimFaultTest, AWorkingQueuePairThatItsClientReplacesIsLostToItsOtherOperations) {
  SimCluster cluster(1, "none", 1);
  ASSERT_EQ(cluster.network().faults_met().size(), 0U) << "the first one replaces none";
  EXPECT_TRUE(cluster.client(0).endpoint().Reconnect(kServer));
  ASSERT_EQ(cluster.network().faults_met().size(), 1U);
  EXPECT_EQ(cluster.network().faults_met()[0].kind, Kind::kBreak);
}

TEST(SimFaultTest, AFenceIsMetByEveryEndpointOfTheClient) {
  SimCluster cluster(1, "none", 2);
  cluster.memory().Fence(1);
  const std::vector<SimFault>& faults = cluster.network().faults_met();
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].kind, Kind::kFenced);
  EXPECT_EQ(faults[0].client_uuid, 1U);
  EXPECT_EQ(faults[0].until, SimFault::Clock::time_point::max());
}

TEST(SimFaultTest, ALinkThatIsDownIsMetAndSoIsEveryConnectionThatFails) {
  SimOptions options = SimCluster::Options(5, "partition");
  options.verbs_per_partition = 30;
  options.most_partitions = 1;
  options.longest_partition = 5ms;
  options.connection_timeout = 0ns;
  SimCluster cluster(options, 1);
  cluster.Spawn(0, WriteUntilLost(cluster.client(0)));
  cluster.Run();
  const std::vector<SimFault>& faults = cluster.network().faults_met();
  ASSERT_EQ(faults.size(), 1 + cluster.network().counters().failed_connects);
  for (const SimFault& fault : faults) {
    EXPECT_EQ(fault.kind, Kind::kLinkDown);
    EXPECT_GE(fault.until, fault.from);
    EXPECT_LE(fault.until, cluster.network().Now());
  }
}

// Only the caller of a lost call learns of the loss: verbs and other calls on the same queue pair
// still work (E7).
TEST(SimFaultTest, ACallThatIsLostEndsUnknownWhileItsQueuePairGoesOn) {
  constexpr int kCalls = 400;
  SimOptions options = SimCluster::Options(3, "calls");
  options.calls_per_loss = 4;
  options.connection_timeout = 2ms;
  SimCluster cluster(options, 1);
  uint64_t lost = 0;
  const auto body = [&](SimClient& client) -> Task<void> {
    for (int i = 0; i < kCalls; ++i) {
      ControlCall call;
      call.server = kServer;
      call.request_bytes = 1;
      const auto start = client.scheduler().Now();
      co_await client.endpoint().Execute(call);
      if (call.status != VerbStatus::kSuccess) {
        ++lost;
        EXPECT_EQ(call.status, VerbStatus::kUnknown);
        EXPECT_GE(client.scheduler().Now() - start, options.connection_timeout);
      }
      EXPECT_EQ(co_await client.Fill(0, 64, 1), VerbStatus::kSuccess);
    }
  };
  cluster.Spawn(0, body(cluster.client(0)));
  cluster.Run();
  const SimCounters& counters = cluster.network().counters();
  EXPECT_GT(lost, uint64_t{kCalls} / 8);
  EXPECT_EQ(counters.lost_calls, lost);
  EXPECT_LT(counters.calls, uint64_t{kCalls}) << "some did not arrive";
  EXPECT_GT(counters.calls, uint64_t{kCalls} - lost) << "of others, only the answer was lost";
  const std::vector<SimFault>& faults = cluster.network().faults_met();
  ASSERT_EQ(faults.size(), lost);
  for (const SimFault& fault : faults) {
    EXPECT_EQ(fault.kind, Kind::kCall);
    EXPECT_GE(fault.until - fault.from, options.connection_timeout);
  }
}

// It is on its way although its queue pair works (E7). All calls of a queue pair are handled in
// their order.
TEST(SimFaultTest, ALateCallIsHandledAfterItsCallerHasGivenUp) {
  constexpr int kCalls = 200;
  SimOptions options = SimCluster::Options(3, "calls");
  options.calls_per_loss = 4;
  options.late_call_percent = 100;
  options.connection_timeout = 2ms;
  SimCluster cluster(options, 1);
  uint64_t unknown = 0;
  uint64_t not_yet = 0;
  const auto body = [&](SimClient& client) -> Task<void> {
    for (uint64_t i = 0; i < kCalls; ++i) {
      ControlCall call;
      call.server = kServer;
      call.request_bytes = 1;
      co_await client.endpoint().Execute(call);
      if (call.status == VerbStatus::kSuccess) {
        EXPECT_EQ(cluster.network().counters().calls, i + 1) << "all before it are handled";
        continue;
      }
      EXPECT_EQ(call.status, VerbStatus::kUnknown);
      ++unknown;
      if (cluster.network().counters().calls <= i) ++not_yet;
    }
    co_await client.scheduler().SleepFor(options.latest_packet);
  };
  cluster.Spawn(0, body(cluster.client(0)));
  cluster.Run();
  const SimCounters& counters = cluster.network().counters();
  EXPECT_GT(unknown, uint64_t{kCalls} / 8);
  EXPECT_EQ(not_yet, unknown);
  EXPECT_EQ(counters.late_calls, unknown);
  EXPECT_EQ(counters.calls, uint64_t{kCalls});
}

TEST(SimFaultTest, AServerThatStopsIsMet) {
  SimCluster cluster(1, "none", 1);
  cluster.memory().Stop();
  const std::vector<SimFault>& faults = cluster.network().faults_met();
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].kind, Kind::kServer);
}

}  // namespace
}  // namespace gossamer::test
