// Behaviour of the simulated network beyond the conformance suite.
#include "common/fabric/sim/sim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "common/fabric/sim/test_cluster.h"

namespace gossamer::test {
namespace {

TEST(SimFaultsTest, ListsAreParsed) {
  EXPECT_EQ(SimFaultsText(ParseSimFaults("none").value()), "none");
  EXPECT_EQ(SimFaultsText(ParseSimFaults("all").value()),
            "tear,delay,reorder,write_back,break,partition,calls,cut,kill,pause");
  EXPECT_EQ(SimFaultsText(ParseSimFaults("pause,tear").value()), "tear,pause");
  for (const char* bad : {"", "tears", "tear,", ",tear", "tear;kill", "none,tear"}) {
    EXPECT_FALSE(ParseSimFaults(bad)) << bad;
  }
}

// A mix of all operations on a few bytes, by clients that repair what breaks.
Task<void> Wander(SimNetwork& network, SimClient& client, uint64_t salt, int batches) {
  Random random(salt);
  const BufferLease buffer = client.Buffer(4096);
  for (int i = 0; i < batches; ++i) {
    InlineBatch<5> batch(kServer);
    const uint64_t verbs = 1 + random.Below(5);
    while (batch.verbs().size() < verbs) {
      const LocalAddress local = buffer.address(batch.verbs().size() * 512);
      const auto length = static_cast<uint32_t>(1 + random.Below(500));
      const uint64_t word = random.Below(16) * 8;
      switch (random.Below(4)) {
        case 0: batch.Add(Verb::Read(random.Below(1024), length, local)); break;
        case 1: batch.Add(Verb::Write(random.Below(1024), length, local)); break;
        case 2: batch.Add(Verb::FetchAdd(Space::kLockTable, word, 1, local)); break;
        default: batch.Add(Verb::CompareSwap(Space::kLockTable, word, 0, 1, local)); break;
      }
      batch.verbs().back().fence = random.Below(4) == 0;
    }
    co_await client.endpoint().Execute(batch);
    if (random.Below(8) == 0) {
      ControlCall call;
      call.server = kServer;
      co_await client.endpoint().Execute(call);
    }
    if (random.Below(16) == 0) co_await client.scheduler().SleepFor(std::chrono::microseconds(5));
    if (batch.status() != VerbStatus::kSuccess && !client.endpoint().Reconnect(kServer)) {
      co_return;
    }
    if (random.Below(64) == 0) network.random().Next();
  }
}

struct Wandering {
  uint64_t hash;
  SimCounters counters;
  Endpoint::Clock::time_point end;
};

Wandering WanderAll(const SimOptions& options, size_t clients = 6, int batches = 200) {
  SimCluster cluster(options, clients);
  for (size_t i = 0; i < clients; ++i) {
    cluster.Spawn(i, Wander(cluster.network(), cluster.client(i), i, batches));
  }
  if (options.faults.kill) {
    for (int i = 0; i < 3000; ++i) cluster.network().RunOne();
    cluster.network().KillClient(2);
  }
  cluster.Run();
  for (size_t i = 0; i < clients; ++i) {
    EXPECT_EQ(cluster.client(i).scheduler().running(), 0U) << "client " << i << " hangs";
  }
  return {cluster.network().TraceHash(), cluster.network().counters(), cluster.network().Now()};
}

TEST(SimNetworkTest, TheSameSeedIsTheSameRun) {
  const auto options = [](uint64_t seed) {
    SimOptions with = SimCluster::Options(seed, "all");
    with.verbs_per_break = 100;
    with.verbs_per_partition = 300;
    return with;
  };
  const Wandering first = WanderAll(options(7));
  const std::vector<char> elsewhere(1 << 20);  // other addresses
  const Wandering again = WanderAll(options(7));
  EXPECT_EQ(first.hash, again.hash);
  EXPECT_EQ(first.end, again.end);
  EXPECT_EQ(first.counters.events, again.counters.events);
  EXPECT_NE(first.hash, WanderAll(options(8)).hash);
}

TEST(SimNetworkTest, EachFaultHappensAndNoOther) {
  const SimCounters ideal = WanderAll(SimCluster::Options(1, "none")).counters;
  EXPECT_GT(ideal.verbs, 2000U);
  EXPECT_GT(ideal.calls, 50U);
  EXPECT_EQ(ideal.torn_reads + ideal.torn_writes + ideal.overtaken + ideal.long_delays +
                ideal.broken_queue_pairs + ideal.partitions + ideal.late_packets +
                ideal.lost_to_write_back,
            0U);
  const SimCounters torn = WanderAll(SimCluster::Options(1, "tear")).counters;
  EXPECT_GT(torn.torn_reads, 50U);
  EXPECT_GT(torn.torn_writes, 50U);
  EXPECT_GT(WanderAll(SimCluster::Options(1, "delay")).counters.long_delays, 50U);
  EXPECT_GT(WanderAll(SimCluster::Options(1, "reorder")).counters.overtaken, 50U);
  SimOptions options = SimCluster::Options(1, "break");
  options.verbs_per_break = 100;
  const SimCounters broken = WanderAll(options).counters;
  EXPECT_GT(broken.broken_queue_pairs, 10U);
  EXPECT_GT(broken.late_packets, 5U);
  EXPECT_GT(broken.dropped_packets, 5U);
  EXPECT_EQ(WanderAll(SimCluster::Options(1, "kill")).counters.killed_clients, 1U);
}

// A3: distinguishes whole 64-byte stamps from mixtures of two; equal ends alone do not prove a
// whole stamp.
TEST(SimNetworkTest, TornReadsMixOnlyWrittenBytes) {
  uint64_t torn = 0;
  uint64_t torn_with_equal_ends = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SimCluster cluster(seed, "tear", 2);
    bool done = false;
    const auto writer = [&](SimClient& client) -> Task<void> {
      for (int i = 0; i < 50; ++i) co_await client.Fill(4096, 64, i % 2 == 0 ? 0x3c : 0xc3);
      done = true;
    };
    const auto reader = [&](SimClient& client) -> Task<void> {
      while (!done) {
        co_await client.Do(Verb::Read(4095, 66, {}));
        const std::byte* const bytes = client.scratch();
        EXPECT_EQ(bytes[0], std::byte{0});
        EXPECT_EQ(bytes[65], std::byte{0});
        const auto old_bytes = std::count(bytes + 1, bytes + 65, std::byte{0x3c});
        const auto new_bytes = std::count(bytes + 1, bytes + 65, std::byte{0xc3});
        const auto zeros = std::count(bytes + 1, bytes + 65, std::byte{0});
        EXPECT_EQ(old_bytes + new_bytes + zeros, 64);
        if (std::max({old_bytes, new_bytes, zeros}) == 64) continue;
        ++torn;
        if (bytes[1] == bytes[64]) ++torn_with_equal_ends;
      }
    };
    cluster.Spawn(0, writer(cluster.client(0)));
    cluster.Spawn(1, reader(cluster.client(1)));
    cluster.Run();
    EXPECT_EQ(cluster.region()[4096], std::byte{0xc3});
  }
  EXPECT_GT(torn, 100U);
  EXPECT_GT(torn_with_equal_ends, 10U);
}

// READs see parts whole, one new while another stays old for long: a checksum does not detect it.
TEST(SimNetworkTest, SomeWritesAreSeenPartByPart) {
  constexpr uint32_t kPart = 100;
  uint64_t torn = 0;
  uint64_t first_is_new = 0;
  uint64_t second_is_new = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SimCluster cluster(seed, "tear,delay", 2);
    bool done = false;
    const auto writer = [&](SimClient& client) -> Task<void> {
      for (int i = 1; i <= 20; ++i) co_await client.Fill(0, 2 * kPart, static_cast<uint8_t>(i));
      done = true;
    };
    const auto reader = [&](SimClient& client) -> Task<void> {
      while (!done) {
        std::array<std::byte, 2> seen{};
        for (uint64_t part = 0; part < 2; ++part) {
          co_await client.Do(Verb::Read((1 - part) * kPart, kPart, {}));
          const std::byte* const bytes = client.scratch();
          if (std::count(bytes, bytes + kPart, *bytes) != kPart) ++torn;
          seen[1 - part] = *bytes;
        }
        if (seen[0] < seen[1]) ++second_is_new;  // though it was read first
        if (seen[0] > seen[1]) ++first_is_new;
      }
    };
    cluster.Spawn(0, writer(cluster.client(0)));
    cluster.Spawn(1, reader(cluster.client(1)));
    cluster.Run();
  }
  EXPECT_GT(torn, 100U);
  EXPECT_GT(second_is_new, 50U);
  EXPECT_GT(first_is_new, 100U);
}

// A6.
TEST(SimNetworkTest, AByteThatWasReadNewIsNotReadOldLater) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SimCluster cluster(seed, "tear,delay,reorder", 3);
    int writing = 2;
    const auto writer = [&](SimClient& client, uint64_t offset) -> Task<void> {
      for (int i = 1; i <= 40; ++i) co_await client.Fill(offset, 64, static_cast<uint8_t>(i));
      --writing;
    };
    const auto reader = [&](SimClient& client) -> Task<void> {
      std::vector<std::byte> last(128);
      while (writing != 0) {
        co_await client.Do(Verb::Read(4096, 128, {}));
        for (size_t i = 0; i < last.size(); ++i) EXPECT_GE(client.scratch()[i], last[i]);
        last.assign(client.scratch(), client.scratch() + 128);
      }
    };
    cluster.Spawn(0, writer(cluster.client(0), 4096));
    cluster.Spawn(1, writer(cluster.client(1), 4160));
    cluster.Spawn(2, reader(cluster.client(2)));
    cluster.Run();
  }
}

// A1, also when atomics write back late.
TEST(SimNetworkTest, CountersSumExactly) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SimCluster cluster(seed, "tear,delay,reorder,write_back", 6);
    const auto body = [&](SimClient& client) -> Task<void> {
      for (int i = 0; i < 50; ++i) {
        co_await client.Do(Verb::FetchAdd(Space::kRegion, 8, 1, {}));
        for (uint64_t expected = 0;;) {
          co_await client.Do(Verb::CompareSwap(Space::kRegion, 16, expected, expected + 1, {}));
          uint64_t seen;
          std::memcpy(&seen, client.scratch(), sizeof seen);
          if (std::exchange(expected, seen) == seen) break;
        }
      }
    };
    for (size_t i = 0; i < 6; ++i) cluster.Spawn(i, body(cluster.client(i)));
    cluster.Run();
    for (const size_t word : {8, 16}) {
      uint64_t sum;
      std::memcpy(&sum, cluster.region() + word, sizeof sum);
      EXPECT_EQ(sum, 300U) << "seed " << seed << " word " << word;
    }
  }
}

// Why a CAS releases a lock (rule L1): a lock released by a WRITE may stay held without a holder.
TEST(SimNetworkTest, AWriteToALockWordIsLostToAFailingCas) {
  for (const bool by_write : {false, true}) {
    uint64_t stuck = 0;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      SimCluster cluster(seed, "write_back", 3);
      const auto holder = [&](SimClient& client) -> Task<void> {
        co_await client.Do(Verb::CompareSwap(Space::kLockTable, 8, 0, 1, {}));
        co_await client.scheduler().SleepFor(std::chrono::microseconds(20));
        if (by_write) {
          co_await client.Fill(8, 8, 0, Space::kLockTable);
        } else {
          co_await client.Do(Verb::CompareSwap(Space::kLockTable, 8, 1, 0, {}));
        }
      };
      const auto spinner = [&](SimClient& client, uint64_t id) -> Task<void> {
        co_await client.scheduler().SleepFor(std::chrono::microseconds(10));
        for (int tries = 0; tries < 200; ++tries) {
          co_await client.Do(Verb::CompareSwap(Space::kLockTable, 8, 0, id, {}));
          uint64_t seen;
          std::memcpy(&seen, client.scratch(), sizeof seen);
          if (seen != 0) continue;
          co_await client.Do(Verb::CompareSwap(Space::kLockTable, 8, id, 0, {}));
          co_return;
        }
        ++stuck;
      };
      cluster.Spawn(0, holder(cluster.client(0)));
      cluster.Spawn(1, spinner(cluster.client(1), 2));
      cluster.Spawn(2, spinner(cluster.client(2), 3));
      cluster.Run();
    }
    EXPECT_EQ(stuck != 0, by_write) << stuck << " of 200";
  }
}

// The times that costs.h gives one client, and many clients that want one word.
TEST(SimNetworkTest, TimesFollowFromTheCosts) {
  const SimCosts costs;
  SimCluster cluster(1, "none", 1);
  const auto time = [&](const Verb& verb) {
    const auto start = cluster.network().Now();
    EXPECT_EQ(cluster.client(0).scheduler().Run(cluster.client(0).Do(verb)), VerbStatus::kSuccess);
    return (cluster.network().Now() - start).count();
  };
  const auto flights = 2 * int64_t{costs.one_way_ns} + 3 * int64_t{costs.nic_message_ns};
  EXPECT_EQ(time(Verb::Read(0, 64, {})), flights + costs.pcie_read_ns);
  EXPECT_EQ(time(Verb::Write(0, 64, {})), flights + costs.pcie_write_ns);
  EXPECT_EQ(time(Verb::FetchAdd(Space::kRegion, 0, 1, {})), flights + costs.dram_atomic_ns);
  EXPECT_EQ(time(Verb::FetchAdd(Space::kLockTable, 0, 1, {})), flights + costs.on_chip_atomic_ns);

  const auto contended = [&](bool on_chip) {
    constexpr size_t kClients = 64;
    constexpr int kAtomics = 50;
    SimCluster many(SimCluster::Options(1, "none"), kClients, on_chip);
    const auto start = many.network().Now();
    const auto body = [&](SimClient& client) -> Task<void> {
      for (int i = 0; i < kAtomics; ++i) {
        co_await client.Do(Verb::FetchAdd(Space::kLockTable, 8, 1, {}));
      }
    };
    for (size_t i = 0; i < kClients; ++i) many.Spawn(i, body(many.client(i)));
    many.Run();
    return static_cast<double>((many.network().Now() - start).count()) / (kClients * kAtomics);
  };
  EXPECT_NEAR(contended(false), costs.dram_atomic_ns, 5);
  EXPECT_LT(contended(true), costs.dram_atomic_ns / 8.0);
}

// With that option, a thread's work delays its posts, and each completion costs time again.
TEST(SimNetworkTest, WhatAThreadPostsLeavesWhenItHasTime) {
  SimOptions options = SimCluster::Options(1, "none");
  options.costs = MeasuredSimCosts();
  const SimCosts& costs = options.costs;
  SimCluster cluster(options, 1);
  constexpr int kReads = 100;
  const auto body = [](SimClient& client) -> Task<void> {
    for (int i = 0; i < kReads; ++i) co_await client.Do(Verb::Read(0, 64, {}));
  };
  const auto start = cluster.network().Now();
  cluster.Spawn(0, body(cluster.client(0)));
  cluster.Run();
  const auto one = 2 * int64_t{costs.one_way_ns} + 3 * int64_t{costs.nic_message_ns} +
                   costs.pcie_read_ns + costs.completion_cpu_ns;
  // An idle thread posts the first at once.
  EXPECT_EQ((cluster.network().Now() - start).count(), kReads * one - costs.completion_cpu_ns);
}

TEST(SimNetworkTest, AThreadCompletesNoMoreThanItsCoreAllows) {
  SimCluster cluster(1, "none", 1);
  constexpr int kReads = 1000;
  const auto body = [](SimClient& client) -> Task<void> {
    const BufferLease buffer = client.Buffer(64);
    for (int i = 0; i < kReads / 50; ++i) {
      InlineBatch<1> batch(kServer);
      batch.Add(Verb::Read(0, 64, buffer.address()));
      co_await client.endpoint().Execute(batch);
    }
  };
  const auto start = cluster.network().Now();
  for (int i = 0; i < 50; ++i) cluster.Spawn(0, body(cluster.client(0)));
  cluster.Run();
  EXPECT_NEAR(static_cast<double>((cluster.network().Now() - start).count()) / kReads,
              SimCosts().completion_cpu_ns, SimCosts().completion_cpu_ns / 5.0);
}

// A blocking call takes only the time that its own thread needs, and does not run up to a later
// event.
TEST(SimNetworkTest, BlockingCallsDoNotJumpToLaterEvents) {
  using namespace std::chrono_literals;
  SimCluster cluster(1, "none", 2);
  SimNetwork& network = cluster.network();
  const auto start = network.Now();
  cluster.client(1).endpoint().WakeAt(start + 10ms);
  SimClient& client = cluster.client(0);
  const auto fill_after = [&](std::chrono::nanoseconds pause) -> Task<void> {
    co_await client.scheduler().SleepFor(pause);
    co_await client.Fill(0, 8, 1);
  };
  // The second ends while the thread is busy with the first.
  for (auto behind = 0ns; behind < 400ns; behind += 10ns) {
    client.scheduler().Spawn(fill_after(0ns));
    client.scheduler().Spawn(fill_after(behind));
    client.scheduler().RunUntil(0);
  }
  EXPECT_LT(network.Now() - start, 5ms);
}

}  // namespace
}  // namespace gossamer::test
