// Breakage in a simulated network: queue pairs, clients, memory servers; and what still lands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/fabric/sim/test_cluster.h"

namespace gossamer::test {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kBlock = 8192;
constexpr uint32_t kBlockBytes = 512;

SimOptions BreakOften(uint64_t seed, std::string_view faults, uint32_t verbs_per_break = 4) {
  SimOptions options = SimCluster::Options(seed, faults);
  options.verbs_per_break = verbs_per_break;
  return options;
}

// Rule U1: what one client never heard of may land after a later change that another client was
// told of.
TEST(SimLoss, LatePacketsLandAfterWhatOthersDidLater) {
  uint64_t late = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SimCluster cluster(BreakOften(seed, "tear,reorder,break"), 2);
    const auto body = [&](SimClient& first, SimClient& second) -> Task<void> {
      const VerbStatus status = co_await first.Fill(kBlock, kBlockBytes, 1);
      if (status == VerbStatus::kSuccess) co_return;
      EXPECT_EQ(status, VerbStatus::kUnknown);
      if (co_await second.Fill(kBlock, kBlockBytes, 2) != VerbStatus::kSuccess) co_return;
      const std::byte* const block = cluster.region() + kBlock;
      const bool was_whole = std::count(block, block + kBlockBytes, std::byte{2}) == kBlockBytes;
      co_await second.scheduler().SleepFor(1s);
      if (was_whole && std::count(block, block + kBlockBytes, std::byte{1}) == kBlockBytes) ++late;
    };
    cluster.Spawn(0, body(cluster.client(0), cluster.client(1)));
    cluster.Run();
  }
  EXPECT_GT(late, 5U);
}

TEST(SimLoss, NothingLandsAfterReconnect) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SimCluster cluster(BreakOften(seed, "tear,reorder,break,write_back"), 1);
    const auto body = [&](SimClient& client) -> Task<void> {
      const BufferLease buffer = client.Buffer(4096);
      for (int round = 0; round < 20; ++round) {
        std::memset(buffer.data(), round, kBlockBytes);
        InlineBatch<3> batch(kServer);
        batch.Add(Verb::Write(kBlock, kBlockBytes, buffer.address()));
        batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 1, buffer.address(1024)));
        batch.Add(Verb::Write(2 * kBlock, kBlockBytes, buffer.address()));
        co_await client.endpoint().Execute(batch);
        if (batch.status() == VerbStatus::kSuccess) continue;
        EXPECT_TRUE(client.endpoint().Reconnect(kServer));
        const std::vector<std::byte> before(cluster.region(), cluster.region() + 4 * kBlock);
        co_await client.scheduler().SleepFor(1s);
        const bool same = std::equal(before.begin(), before.end(), cluster.region());
        EXPECT_TRUE(same) << "seed " << seed;
      }
    };
    cluster.Spawn(0, body(cluster.client(0)));
    cluster.Run();
    EXPECT_GT(cluster.network().counters().broken_queue_pairs, 0U);
  }
}

// E2, E3, and that a set closed under O1 and O2 takes effect.
TEST(SimLoss, StatusesAndEffectsOfABrokenBatchFitTogether) {
  uint64_t applied_and_unknown = 0;
  uint64_t lost = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SimCluster cluster(BreakOften(seed, "tear,reorder,break", 6), 1);
    const auto body = [&](SimClient& client) -> Task<void> {
      const BufferLease buffer = client.Buffer(4096);
      std::memset(buffer.data(), 1, 64);
      InlineBatch<4> batch(kServer);
      batch.Add(Verb::Write(0, 64, buffer.address()));
      batch.Add(Verb::Write(64, 64, buffer.address()));
      batch.Add(Verb::FetchAdd(Space::kRegion, 128, 1, buffer.address(128)));
      batch.Add(Verb::FetchAdd(Space::kRegion, 136, 1, buffer.address(192)));
      co_await client.endpoint().Execute(batch);
      if (batch.status() == VerbStatus::kSuccess) co_return;
      co_await client.scheduler().SleepFor(1s);
      bool failed = false;
      bool missing = false;
      for (size_t i = 0; i < 4; ++i) {
        const VerbStatus status = batch.verbs()[i].status;
        EXPECT_NE(status, VerbStatus::kPending);
        const size_t at = i < 2 ? i * 64 : 128 + (i - 2) * 8;
        const bool applied = cluster.region()[at] == std::byte{1};
        EXPECT_FALSE(missing && applied) << "seed " << seed << ": not closed";
        missing = missing || !applied;
        if (status == VerbStatus::kSuccess) {
          EXPECT_FALSE(failed);
          EXPECT_TRUE(applied);
          continue;
        }
        EXPECT_EQ(status, VerbStatus::kUnknown);
        failed = true;
        if (applied) ++applied_and_unknown;
        if (!applied) ++lost;
      }
      // From then on everything is flushed.
      EXPECT_EQ(co_await client.Fill(0, 1, 9), VerbStatus::kFlushed);
      ControlCall call;
      call.server = kServer;
      co_await client.endpoint().Execute(call);
      EXPECT_EQ(call.status, VerbStatus::kFlushed);
    };
    cluster.Spawn(0, body(cluster.client(0)));
    cluster.Run();
  }
  EXPECT_GT(applied_and_unknown, 0U);
  EXPECT_GT(lost, 0U);
}

// A client that WRITEs batches of blocks until it ends.
Task<void> WriteForEver(SimClient& client, uint32_t bytes) {
  const BufferLease buffer = client.Buffer(size_t{4} * bytes);
  for (int round = 1;; ++round) {
    std::memset(buffer.data(), round & 0xff, size_t{4} * bytes);
    InlineBatch<4> batch(kServer);
    for (uint64_t i = 0; i < 4; ++i) {
      batch.Add(Verb::Write(i * kBlock + i, bytes, buffer.address(i * bytes)));
    }
    co_await client.endpoint().Execute(batch);
    if (batch.status() != VerbStatus::kSuccess) break;
  }
  EXPECT_FALSE(client.endpoint().Reconnect(kServer));
  EXPECT_EQ(co_await client.Fill(0, 8, 0xee), VerbStatus::kFlushed);
}

TEST(SimLoss, AKilledClientLeavesWholeWritesAClosedSetOfThem) {
  uint64_t differing = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SimCluster cluster(seed, "tear,delay,reorder", 2);
    SimNetwork& network = cluster.network();
    const auto reaper = [&](SimClient& client) -> Task<void> {
      co_await client.scheduler().SleepFor(std::chrono::nanoseconds(network.random().Below(30000)));
      network.KillClient(1);
      co_await client.scheduler().SleepFor(
          std::chrono::nanoseconds(network.random().Below(20'000'000)));
      cluster.memory().Fence(1);
      const std::vector<std::byte> before(cluster.region(), cluster.region() + 4 * kBlock);
      co_await client.scheduler().SleepFor(1s);
      EXPECT_TRUE(std::equal(before.begin(), before.end(), cluster.region()))
          << "seed " << seed << ": something landed after the fence";
    };
    cluster.Spawn(0, WriteForEver(cluster.client(0), 4096));
    cluster.Spawn(1, reaper(cluster.client(1)));
    cluster.Run();
    EXPECT_EQ(cluster.client(0).scheduler().running(), 0U);
    std::byte last{0xff};
    for (uint64_t i = 0; i < 4; ++i) {
      const std::byte* const block = cluster.region() + i * kBlock + i;
      EXPECT_EQ(std::count(block, block + 4096, *block), 4096) << "seed " << seed;
      EXPECT_LE(*block, last) << "seed " << seed << ": not closed under O1";
      if (i != 0 && *block != last) ++differing;
      last = *block;
    }
  }
  EXPECT_GT(differing, 0U) << "every batch was applied whole";
}

TEST(SimLoss, ACutLeavesTheBeginningOfABatchAndItsClientDead) {
  for (const char* faults : {"cut", "cut,tear,delay,reorder"}) {
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      SimCluster cluster(seed, faults, 1);
      cluster.Spawn(0, WriteForEver(cluster.client(0), 4096));
      cluster.Run();
      EXPECT_EQ(cluster.network().TakeKilledInBatch(), 1U);
      EXPECT_EQ(cluster.network().TakeKilledInBatch(), std::nullopt);
      EXPECT_EQ(cluster.network().counters().cuts, 1U);
      const auto block = [&](uint64_t i) { return cluster.region()[i * kBlock + i]; };
      EXPECT_GT(block(0), block(3)) << "seed " << seed << ": the last batch was applied whole";
      for (uint64_t i = 0; i < 4; ++i) {
        const std::byte* const bytes = cluster.region() + i * kBlock + i;
        EXPECT_EQ(std::count(bytes, bytes + 4096, *bytes), 4096) << "seed " << seed;
      }
    }
  }
}

TEST(SimLoss, AKilledClientIsGoneOnceAndOnlyWhenSomebodyNotices) {
  for (const bool observed : {false, true}) {
    SimOptions options = SimCluster::Options(3, "none");
    if (observed) options.observes_death = 5ms;
    SimCluster cluster(options, 2);
    EXPECT_EQ(cluster.memory().observes_death(), observed);
    cluster.network().KillClient(1);
    const auto gone = [&](SimClient& client) -> Task<uint64_t> {
      ControlCall call;
      call.server = kServer;
      call.request[0] = TestControlHandler::kGone;
      const uint64_t uuid = 1;
      std::memcpy(&call.request[1], &uuid, sizeof uuid);
      call.request_bytes = 1 + sizeof uuid;
      co_await client.endpoint().Execute(call);
      uint64_t count;
      std::memcpy(&count, call.reply.data(), sizeof count);
      co_return count;
    };
    const auto body = [&](SimClient& client) -> Task<void> {
      EXPECT_EQ(co_await gone(client), 0U);
      co_await client.scheduler().SleepFor(20ms);
      EXPECT_EQ(co_await gone(client), observed ? 1U : 0U);
      cluster.memory().Fence(1);
      EXPECT_EQ(co_await gone(client), 1U);
      cluster.memory().Fence(1);
      EXPECT_EQ(co_await gone(client), 1U);
    };
    cluster.Spawn(1, body(cluster.client(1)));
    cluster.Run();
    EXPECT_EQ(cluster.client(1).scheduler().running(), 0U);
  }
}

// Its batches are not touched any more, and may be destroyed with it.
TEST(SimLoss, AnEndpointMayGoWithVerbsInFlight) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SimCluster cluster(BreakOften(seed, "tear,delay,reorder,write_back,break", 50), 1);
    SimNetwork& network = cluster.network();
    std::vector<std::byte> before;
    {
      SimClient client(network, 99, cluster.memory().address());
      const BufferLease buffer = client.Buffer(4096);
      Completion completion{100, std::noop_coroutine()};
      InlineBatch<2> batches[8];
      ControlCall call;
      call.server = kServer;
      call.completion = &completion;
      client.endpoint().Post(call);
      for (InlineBatch<2>& batch : batches) {
        batch.Reset(kServer);
        batch.Add(Verb::Write(0, 2048, buffer.address()));
        batch.Add(Verb::FetchAdd(Space::kLockTable, 0, 1, buffer.address(2048)));
        batch.completion = &completion;
        client.endpoint().Post(batch);
      }
      for (uint64_t events = network.random().Below(60); events != 0; --events) network.RunOne();
    }
    before.assign(cluster.region(), cluster.region() + 4096);
    const auto body = [](SimClient& observer) -> Task<void> {
      co_await observer.scheduler().SleepFor(1s);
    };
    cluster.Spawn(0, body(cluster.client(0)));
    cluster.Run();
    EXPECT_TRUE(std::equal(before.begin(), before.end(), cluster.region())) << "seed " << seed;
  }
}

TEST(SimLoss, APausedClientDoesNotRunButItsVerbsGoOn) {
  SimCluster cluster(1, "none", 1);
  SimNetwork& network = cluster.network();
  const auto start = network.Now();
  Endpoint::Clock::duration ended{};
  const auto body = [&](SimClient& client) -> Task<void> {
    EXPECT_EQ(co_await client.Fill(0, 64, 7), VerbStatus::kSuccess);
    ended = network.Now() - start;
  };
  cluster.Spawn(0, body(cluster.client(0)));
  network.PauseClient(1, start + 1ms);
  network.PauseClient(1, start + 500us);  // does not shorten the pause
  while (network.Now() < start + 100us) network.RunOne();
  EXPECT_EQ(cluster.region()[0], std::byte{7});
  EXPECT_EQ(network.RunUntilRunnable(), &cluster.client(0).endpoint());
  cluster.client(0).scheduler().RunOnce();
  EXPECT_EQ(ended, 1ms);
  // A blocking call waits likewise.
  network.PauseClient(1, start + 3ms);
  EXPECT_EQ(cluster.client(0).scheduler().Run(cluster.client(0).Fill(0, 64, 8)),
            VerbStatus::kSuccess);
  EXPECT_GE(network.Now() - start, 3ms);
}

// Its coroutines unwind, whatever arrived for it while it did not run.
TEST(SimLoss, AClientMayBeKilledWhileItIsPaused) {
  SimCluster cluster(1, "none", 1);
  SimNetwork& network = cluster.network();
  VerbStatus status = VerbStatus::kPending;
  const auto body = [&](SimClient& client) -> Task<void> {
    status = co_await client.Fill(0, 8, 1);
  };
  cluster.Spawn(0, body(cluster.client(0)));
  network.PauseClient(1, network.Now() + 1s);
  while (network.Now() < SimNetwork::Clock::time_point(1s + 10ms) && network.RunOne()) {
  }
  EXPECT_EQ(status, VerbStatus::kPending);
  network.KillClient(1);
  cluster.Run();
  EXPECT_NE(status, VerbStatus::kPending);
}

TEST(SimLoss, AStoppedMemoryServerIsAnErrorAndNothingLandsAfterwards) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SimCluster cluster(seed, "tear,delay,reorder", 2);
    cluster.Spawn(0, WriteForEver(cluster.client(0), 512));
    std::vector<std::byte> before;
    const auto stopper = [&](SimClient& client) -> Task<void> {
      co_await client.scheduler().SleepFor(20us);
      cluster.memory().Stop();
      before.assign(cluster.region(), cluster.region() + 4 * kBlock);
      // It had nothing in flight, so its first post is the first affected verb (E3).
      EXPECT_EQ(co_await client.Fill(0, 8, 1), VerbStatus::kUnknown);
      EXPECT_EQ(co_await client.Fill(0, 8, 1), VerbStatus::kFlushed);
    };
    cluster.Spawn(1, stopper(cluster.client(1)));
    cluster.Run();
    EXPECT_TRUE(std::equal(before.begin(), before.end(), cluster.region()));
    EXPECT_EQ(cluster.client(0).scheduler().running(), 0U);
  }
}

}  // namespace
}  // namespace gossamer::test
