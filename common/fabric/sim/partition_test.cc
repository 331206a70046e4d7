// Links of a simulated network that are down for a while.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/fabric/open/open_port.h"
#include "common/fabric/sim/test_cluster.h"
#include "common/random_id.h"

namespace gossamer::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongest = 5ms;

SimOptions PartitionOften(uint64_t seed, std::string_view faults = "partition") {
  SimOptions options = SimCluster::Options(seed, faults);
  options.verbs_per_partition = 30;
  options.most_partitions = 5;
  options.longest_partition = kLongest;
  options.connection_timeout = 0ns;
  return options;
}

// Retries until the link is up.
Task<void> ReconnectAtLast(SimClient& client) {
  while (!client.endpoint().Reconnect(kServer)) co_await client.scheduler().SleepFor(10us);
}

struct Seen {
  uint64_t hash = 0;
  SimCounters counters;
  std::vector<Endpoint::Clock::duration> without;  // how long each time
};

// A client that continues until no link has been down for long.
Seen WriteThrough(const SimOptions& options) {
  SimCluster cluster(options, 1);
  Seen seen;
  const auto body = [&](SimClient& client) -> Task<void> {
    for (int i = 0; i < 2000; ++i) {
      if (co_await client.Fill(0, 64, 1) == VerbStatus::kSuccess) continue;
      const auto start = client.scheduler().Now();
      co_await ReconnectAtLast(client);
      seen.without.push_back(client.scheduler().Now() - start);
    }
  };
  cluster.Spawn(0, body(cluster.client(0)));
  cluster.Run();
  EXPECT_EQ(cluster.client(0).scheduler().running(), 0U);
  seen.hash = cluster.network().TraceHash();
  seen.counters = cluster.network().counters();
  return seen;
}

TEST(SimPartition, ALinkIsDownForAWhileAndThenItIsUp) {
  uint64_t failed = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Seen seen = WriteThrough(PartitionOften(seed));
    EXPECT_EQ(seen.counters.partitions, 5U);
    EXPECT_EQ(seen.counters.broken_queue_pairs, 0U);
    EXPECT_GT(seen.without.size(), 0U);
    for (const auto without : seen.without) EXPECT_LE(without, kLongest + 20us);
    failed += seen.counters.failed_connects;
  }
  EXPECT_GT(failed, 1000U);
}

TEST(SimPartition, TheSameSeedIsTheSameRun) {
  const Seen first = WriteThrough(PartitionOften(7, "tear,delay,reorder,break,partition"));
  const Seen again = WriteThrough(PartitionOften(7, "tear,delay,reorder,break,partition"));
  EXPECT_EQ(first.hash, again.hash);
  EXPECT_EQ(first.without, again.without);
  EXPECT_NE(first.hash, WriteThrough(PartitionOften(8)).hash);
}

// A client with a long connection time-out does not notice the outage.
TEST(SimPartition, ReconnectTriesForAsLongAsAConnectionMayTake) {
  SimOptions options = PartitionOften(3);
  options.connection_timeout = kLongest;
  const Seen patient = WriteThrough(options);
  EXPECT_EQ(patient.counters.partitions, 5U);
  EXPECT_EQ(patient.counters.failed_connects, 0U);
  options.connection_timeout = kLongest / 100;
  const Seen impatient = WriteThrough(options);
  EXPECT_GT(impatient.counters.failed_connects, 0U);
  EXPECT_LE(impatient.counters.failed_connects, 100 * impatient.counters.partitions);
}

// What is in flight lands late or never: possibly after a `Reconnect` that fails, never after one
// that succeeds.
TEST(SimPartition, WhatWasOnItsWayLandsUntilReconnectSucceeds) {
  uint64_t landed_behind_failure = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SimCluster cluster(PartitionOften(seed, "tear,reorder,partition"), 1);
    const auto image = [&] {
      return std::vector<std::byte>(cluster.region(), cluster.region() + 4096);
    };
    const auto body = [&](SimClient& client) -> Task<void> {
      for (uint8_t i = 0; i < 100; ++i) {
        if (co_await client.Fill(0, 512, i) == VerbStatus::kSuccess) continue;
        if (!client.endpoint().Reconnect(kServer)) {
          const std::vector<std::byte> before = image();
          co_await ReconnectAtLast(client);
          landed_behind_failure += image() == before ? 0 : 1;
        }
        const std::vector<std::byte> before = image();
        co_await client.scheduler().SleepFor(1s);
        EXPECT_EQ(image(), before) << "seed " << seed;
      }
    };
    cluster.Spawn(0, body(cluster.client(0)));
    cluster.Run();
  }
  EXPECT_GT(landed_behind_failure, 10U);
}

// Two endpoints of one client, each with queue pairs to two memory servers.
class TwoEndpoints {
 public:
  explicit TwoEndpoints(SimCluster& cluster) : network_(cluster.network()) {
    MemoryPortOptions memory;
    memory.region_bytes = memory.lock_table_bytes = 4096;
    memory.network = &network_;
    other_server_ = OpenMemoryPort(FabricKind::kSim, memory).value();
    EXPECT_TRUE(other_server_->Start(handler_, RandomId()));
    ComputePortOptions compute;
    compute.client_uuid = 77;
    compute.network = &network_;
    port_ = OpenComputePort(FabricKind::kSim, compute).value();
    EXPECT_TRUE(port_->Connect(ServerId{0}, cluster.memory().address()));
    EXPECT_TRUE(port_->Connect(ServerId{1}, other_server_->address()));
    for (auto& endpoint : endpoints_) endpoint = port_->NewEndpoint().value();
  }

  // READs on the first endpoint until it has lost a link. Returns a bit for each link that is down
  // then.
  uint32_t LoseLink() {
    const BufferLease buffer = endpoints_[0]->buffers().Allocate(64).value();
    VerbStatus status = VerbStatus::kSuccess;
    while (status == VerbStatus::kSuccess) {
      Completion completion{1, std::noop_coroutine()};
      InlineBatch<1> batch(ServerId{0});
      batch.Add(Verb::Read(0, 64, buffer.address()));
      batch.completion = &completion;
      endpoints_[0]->Post(batch);
      while (completion.remaining != 0) endpoints_[0]->Poll();
      status = batch.status();
    }
    uint32_t down = 0;
    for (uint32_t link = 0; link < 4; ++link) {
      if (!endpoints_[link / 2]->Reconnect(ServerId{static_cast<uint16_t>(link % 2)})) {
        down |= 1U << link;
      }
    }
    return down;
  }
  // A WRITE to server 0 and the release of a lock with this word. Returns how long that takes.
  Endpoint::Clock::duration WriteAndRelease(uint64_t word) {
    Endpoint& endpoint = *endpoints_[0];
    const BufferLease buffer = endpoint.buffers().Allocate(64).value();
    const auto start = network_.Now();
    Completion completion{1, std::noop_coroutine()};
    InlineBatch<2> batch(ServerId{0});
    batch.Add(Verb::Write(0, 8, buffer.address()));
    batch.Add(Verb::CompareSwap(Space::kLockTable, 0, word, 0, buffer.address(8)));
    batch.completion = &completion;
    endpoint.Post(batch);
    while (completion.remaining != 0) endpoint.Poll();
    EXPECT_EQ(batch.status(), VerbStatus::kSuccess);
    return network_.Now() - start;
  }
  bool Reaches(uint16_t server) { return endpoints_[0]->Reconnect(ServerId{server}).has_value(); }
  // Whether all links are up again.
  bool Heals() {
    network_.SetFaults({});
    return endpoints_[0]->Reconnect(ServerId{0}) && endpoints_[0]->Reconnect(ServerId{1}) &&
           endpoints_[1]->Reconnect(ServerId{0}) && endpoints_[1]->Reconnect(ServerId{1});
  }

 private:
  SimNetwork& network_;
  TestControlHandler handler_;
  std::unique_ptr<MemoryPort> other_server_;
  std::unique_ptr<ComputePort> port_;
  std::array<std::unique_ptr<Endpoint>, 2> endpoints_;
};

TEST(SimPartition, ItIsOneEndpointsOrAClientsToOneMemoryServerOrToAll) {
  std::array<uint32_t, 16> seen{};
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SimOptions options = PartitionOften(seed);
    options.latest_notice = 0ns;
    options.most_partitions = 1;
    SimCluster cluster(options, 1);
    TwoEndpoints client(cluster);
    ++seen[client.LoseLink()];
    EXPECT_TRUE(client.Heals());
    // No other client has noticed.
    EXPECT_EQ(cluster.client(0).scheduler().Run(cluster.client(0).Fill(0, 64, 1)),
              VerbStatus::kSuccess);
  }
  EXPECT_GT(seen[0b0001], 60U);
  EXPECT_GT(seen[0b0101], 25U);
  EXPECT_GT(seen[0b1111], 25U);
  EXPECT_LE(seen[0b0000], 20U) << "up again at once";
  EXPECT_EQ(seen[0b0000] + seen[0b0001] + seen[0b0101] + seen[0b1111], 200U);
}

TEST(SimPartition, AReleaseThatIsLateTakesTheLinksToOtherMemoryServersDown) {
  constexpr uint64_t kBit = 4;
  constexpr std::chrono::nanoseconds kLag = 5ms;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimOptions options = SimCluster::Options(seed, "delay,partition");
    options.verbs_per_long_delay = options.most_partitions = 0;
    options.connection_timeout = kLag;
    options.batches_per_lag = 1;
    options.lag_bits = kBit;
    options.longest_lag = kLag;
    SimCluster cluster(options, 1);
    TwoEndpoints client(cluster);
    EXPECT_TRUE(client.Reaches(0) && client.Reaches(1));
    EXPECT_LT(client.WriteAndRelease(kBit - 1), kLag / 10);
    EXPECT_EQ(cluster.network().counters().partitions, 0U);
    for (uint64_t lags = 1; lags <= 3; ++lags) {
      const auto took = client.WriteAndRelease(kBit + 1);
      EXPECT_GE(took, kLag / 2);
      EXPECT_LT(took, kLag + kLag / 10);
      EXPECT_EQ(cluster.network().counters().partitions, lags);
      EXPECT_TRUE(client.Reaches(1)) << "its link is up before the batch arrives";
    }
    // No other client has noticed.
    EXPECT_EQ(cluster.client(0).scheduler().Run(cluster.client(0).Fill(0, 64, 1)),
              VerbStatus::kSuccess);
  }
}

}  // namespace
}  // namespace gossamer::test
