// Store::Repair: a store that has lost memory servers for good is whole again, without what they
// held.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"
#include "compute/store/open_session.h"
#include "compute/store/testing/test_cluster.h"
#include "compute/store/walking/loss_repairer.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

constexpr ServerId kOther{1};
using Pairs = std::map<std::string, std::string>;

// A key that does not fit into a leaf for each number that 7 divides, and a block for each that 3
// divides.
std::string KeyOf(uint64_t number) {
  return NumberKey(SplitMix64::Mix(number)) + (number % 7 == 0 ? std::string(150, 'k') : "");
}
std::string ValueOf(uint64_t number, uint64_t version = 0) {
  return fmt::format("{:08}.{}", number, version) + std::string(number % 3 == 0 ? 100 : 0, 'v');
}

ClusterOptions Options(size_t servers, uint32_t node_bytes = 512) {
  ClusterOptions options;
  options.parameters = {node_bytes, 250, 16};
  options.servers = servers;
  options.chunk_bytes = uint64_t{64} << 10;
  return options;
}

void Fill(TestCluster& cluster, uint64_t keys) {
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const std::unique_ptr<Session> session = store->NewSession().value();
  for (uint64_t i = 0; i < keys; ++i) ASSERT_TRUE(session->Put(KeyOf(i), ValueOf(i)));
}

// All that can be read; `missing`, unless null, gets what cannot.
Pairs Read(Store& store, std::vector<MissingKeys>* missing = nullptr) {
  const std::unique_ptr<Session> session = store.NewSession().value();
  ScanOptions options;
  options.salvage = missing != nullptr;
  const std::unique_ptr<ScanCursor> cursor = session->Scan(options);
  Pairs pairs;
  while (cursor->Next()) pairs[std::string(cursor->key())] = cursor->value();
  EXPECT_TRUE(cursor->status()) << cursor->status().error().ToString();
  if (missing != nullptr) missing->assign(cursor->missing().begin(), cursor->missing().end());
  return pairs;
}

RepairReport Repair(Store& store, bool dry_run) {
  const Result<RepairReport> report = store.Repair(dry_run, {});
  EXPECT_TRUE(report) << report.error().ToString();
  return report ? report.value() : RepairReport{};
}

void ExpectSound(TestCluster& cluster) {
  const CheckReport report = cluster.Check();
  EXPECT_EQ(report.problem_count, 0u) << testing::PrintToString(report.problems);
}

void ExpectSame(const RepairReport& a, const RepairReport& b) {
  EXPECT_EQ(a.lost_servers, b.lost_servers);
  EXPECT_EQ(a.lost_leaves, b.lost_leaves);
  EXPECT_EQ(a.lost_keys, b.lost_keys);
  EXPECT_EQ(a.lost_values, b.lost_values);
  EXPECT_EQ(a.lost_bytes, b.lost_bytes);
  EXPECT_EQ(a.keys, b.keys);
  ASSERT_EQ(a.ranges.size(), b.ranges.size());
  for (size_t i = 0; i < a.ranges.size(); ++i) {
    EXPECT_EQ(a.ranges[i].from, b.ranges[i].from);
    EXPECT_EQ(a.ranges[i].to, b.ranges[i].to);
  }
}

class RepairTest : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Servers, RepairTest, testing::Values(2, 3));

TEST_P(RepairTest, WhatIsLeftStaysAndTheRestCanBeWrittenAgain) {
  constexpr uint64_t kKeys = 4000;
  TestCluster cluster(Options(GetParam()));
  ASSERT_NO_FATAL_FAILURE(Fill(cluster, kKeys));
  cluster.Kill(kOther);
  const std::unique_ptr<Store> store = cluster.OpenStore();
  std::vector<MissingKeys> missing;
  const Pairs left = Read(*store, &missing);
  ASSERT_FALSE(missing.empty());
  ASSERT_FALSE(left.empty());

  const RepairReport dry = Repair(*store, true);
  EXPECT_EQ(dry.lost_servers, std::vector<uint32_t>{ToInteger(kOther)});
  EXPECT_GT(dry.lost_leaves, 0u);
  EXPECT_GT(dry.lost_values, 0u);
  EXPECT_EQ(dry.lost_internal_nodes, 0u);
  EXPECT_EQ(dry.keys, left.size());
  ASSERT_NO_FATAL_FAILURE(ExpectSame(dry, Repair(*store, true)));  // It has changed nothing.
  ASSERT_EQ(Read(*store, &missing), left);
  ASSERT_FALSE(missing.empty());

  const RepairReport done = Repair(*store, false);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(dry, done));
  EXPECT_EQ(Read(*store), left);
  ExpectSound(cluster);
  const RepairReport again = Repair(*store, false);
  EXPECT_EQ(again.lost_leaves + again.lost_values + again.lost_internal_nodes, 0u);
  EXPECT_TRUE(again.ranges.empty());
  EXPECT_EQ(again.keys, left.size());

  const std::unique_ptr<Session> session = store->NewSession().value();
  Pairs all;
  for (uint64_t i = 0; i < kKeys; ++i) {
    ASSERT_TRUE(session->Put(KeyOf(i), ValueOf(i, 1))) << i;
    all[KeyOf(i)] = ValueOf(i, 1);
  }
  EXPECT_EQ(Read(*store), all);
  ExpectSound(cluster);
  const RangeDeletion deletion = session->DeleteRange({}, {});
  ASSERT_TRUE(deletion.status) << deletion.status.error().ToString();
  EXPECT_EQ(deletion.deleted, kKeys);
  ExpectSound(cluster);
}

// Compute servers that have cached paths to lost leaves, and that know the lost server, work on:
// what they were told is done before and after the repair.
TEST_P(RepairTest, OthersWorkMeanwhile) {
  constexpr uint64_t kKeys = 3000;
  constexpr size_t kThreads = 2;
  TestCluster cluster(Options(GetParam()));
  ASSERT_NO_FATAL_FAILURE(Fill(cluster, kKeys));
  std::vector<std::unique_ptr<Store>> stores;
  for (size_t i = 0; i < kThreads; ++i) {
    stores.push_back(cluster.OpenStore());
    ASSERT_EQ(Read(*stores.back()).size(), kKeys);
  }
  cluster.Kill(kOther);
  std::atomic<bool> is_repaired = false;
  std::vector<std::map<uint64_t, uint64_t>> written(kThreads);  // numbers, and the last version
  std::vector<std::thread> threads;
  for (size_t own = 0; own < kThreads; ++own) {
    threads.emplace_back([&, own] {
      Random random(TestSeed(), own);
      const std::unique_ptr<Session> session = stores[own]->NewSession().value();
      std::map<uint64_t, uint64_t> unsure;
      for (uint64_t version = 1; !is_repaired || version % 500 != 0; ++version) {
        // The blocks that are replaced wait for a second: a quicker writer would fill the memory.
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        const uint64_t number = random.Below(kKeys) / kThreads * kThreads + own;
        const Result<std::string> value = session->Get(KeyOf(number));
        const auto known = written[own].find(number);
        if (value && known != written[own].end() && !unsure.contains(number)) {
          ASSERT_EQ(value.value(), ValueOf(number, known->second));
        } else if (!value && value.error().code != Code::kNodeUnreachable) {
          ASSERT_EQ(value.error().code, Code::kNotFound) << value.error().ToString();
          ASSERT_TRUE(known == written[own].end()) << number;
        }
        const Status put = session->Put(KeyOf(number), ValueOf(number, version));
        if (put) {
          written[own][number] = version;
          unsure.erase(number);
        } else if (put.error().code == Code::kMaybeApplied) {
          unsure[number] = version;
        } else {
          ASSERT_TRUE(put.error().code == Code::kNodeUnreachable) << put.error().ToString();
        }
      }
      for (const auto& [number, version] : unsure) written[own].erase(number);
    });
  }
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const RepairReport report = Repair(*store, false);
  EXPECT_GT(report.lost_leaves, 0u);
  is_repaired = true;
  for (std::thread& thread : threads) thread.join();
  for (const auto& own : stores) {
    const std::unique_ptr<Session> session = own->NewSession().value();
    for (uint64_t i = 0; i < kKeys; ++i) {
      const Result<std::string> value = session->Get(KeyOf(i));
      ASSERT_TRUE(value || value.error().code == Code::kNotFound) << value.error().ToString();
      const auto known = written[i % kThreads].find(i);
      if (known == written[i % kThreads].end()) continue;
      ASSERT_TRUE(value) << i;
      ASSERT_EQ(value.value(), ValueOf(i, known->second));
    }
  }
  ExpectSound(cluster);
}

// Leaves to which their left neighbours lead alone, which are lost or left.
TEST(RepairLossTest, LostNodesWithoutDownlinksAreReplaced) {
  TestCluster cluster(Options(2));
  ASSERT_NO_FATAL_FAILURE(Fill(cluster, 6000));
  uint64_t removed = 0;
  {
    TestClient client(cluster);
    RemotePtr at = client.Root().pointer();
    while (client.Internal(at).level > 1) at = client.Internal(at).children.front().pointer;
    // Of each parent of leaves, the second child: on whichever server it is.
    for (; !at.is_null(); at = client.Internal(at).sibling) {
      if (client.Internal(at).children.size() < 3) continue;
      client.RemoveDownlink(at);
      ++removed;
    }
  }
  ASSERT_GT(removed, 5u);
  cluster.Kill(kOther);
  const std::unique_ptr<Store> store = cluster.OpenStore();
  std::vector<MissingKeys> missing;
  const Pairs left = Read(*store, &missing);
  const RepairReport dry = Repair(*store, true);
  const RepairReport done = Repair(*store, false);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(dry, done));
  EXPECT_EQ(Read(*store), left);
  ExpectSound(cluster);
}

// Has internal nodes on a server where they are only if the one with the root had no room for them:
// two neighbours.
void MoveInternalNodes(TestCluster& cluster) {
  TestClient client(cluster);
  const std::unique_ptr<OpenSession> session = client.NewSession();
  Scheduler& scheduler = session->scheduler();
  const RemotePtr root_at = client.Root().pointer();
  InternalNode root = client.Internal(root_at);
  ASSERT_EQ(root.level, 2u);
  ASSERT_GT(root.children.size(), 5u);
  const auto write = [&client](RemotePtr at, const InternalNode& node) {
    std::vector<std::byte> image(client.shared().parameters.node_bytes);
    ASSERT_TRUE(EncodeInternal(image, at, node));
    client.Write(at.server(), at.offset(), image);
  };
  // From the right, so that the left one's sibling is moved already.
  for (const size_t number : {3, 2}) {
    RemotePtr to;
    while (to.server() != kOther) {
      WireCounts wire;
      std::optional<ServerId> lost;
      Result<Allocated<RemotePtr>> allocated = scheduler.Run(
          client.shared().allocator.AllocateNode({scheduler, wire, lost}, kOther, NodeKind::kLeaf));
      ASSERT_TRUE(allocated) << allocated.error().ToString();
      to = allocated.value().pointer();
      allocated.value().Posted();
    }
    ASSERT_NO_FATAL_FAILURE(write(to, client.Internal(root.children[number].pointer)));
    InternalNode left = client.Internal(root.children[number - 1].pointer);
    ASSERT_EQ(left.sibling, root.children[number].pointer);
    left.sibling = to;
    ASSERT_NO_FATAL_FAILURE(write(root.children[number - 1].pointer, left));
    root.children[number].pointer = to;
  }
  write(root_at, root);
}

// The last leaf of each of many series has a prefix of its own, without which its entries do not
// fit.
TEST(RepairLossTest, LeavesWithAPrefixOfTheirOwnLoseWhatIsLost) {
  constexpr uint64_t kSeries = 24;
  TestCluster cluster(Options(2));
  {
    const std::unique_ptr<Store> store = cluster.OpenStore();
    const std::unique_ptr<Session> session = store->NewSession().value();
    for (uint64_t i = 0; i < 60; ++i) {
      for (uint64_t series = 0; series < kSeries; ++series) {
        const std::string key = fmt::format("{:02}{}{:04}", series, std::string(120, 'p'), i);
        ASSERT_TRUE(session->Put(key, ValueOf(i + series)));
      }
    }
  }
  cluster.Kill(kOther);
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const RepairReport dry = Repair(*store, true);
  EXPECT_GT(dry.lost_values, 0u);
  const RepairReport done = Repair(*store, false);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(dry, done));
  EXPECT_EQ(Read(*store).size(), done.keys);
  ExpectSound(cluster);
}

TEST(RepairLossTest, LostInternalNodesAreReplaced) {
  TestCluster cluster(Options(3));
  ASSERT_NO_FATAL_FAILURE(Fill(cluster, 5000));
  ASSERT_NO_FATAL_FAILURE(MoveInternalNodes(cluster));
  cluster.Kill(kOther);
  const std::unique_ptr<Store> store = cluster.OpenStore();
  std::vector<MissingKeys> missing;
  const Pairs salvaged = Read(*store, &missing);
  const RepairReport report = Repair(*store, false);
  EXPECT_EQ(report.lost_internal_nodes, 2u);
  ExpectSound(cluster);
  // A salvaging scan reaches what downlinks lead to; a repair, what siblings lead to as well.
  const Pairs left = Read(*store);
  EXPECT_EQ(left.size(), report.keys);
  for (const auto& [key, value] : salvaged) ASSERT_EQ(left.at(key), value);
  const std::unique_ptr<Session> session = store->NewSession().value();
  for (uint64_t i = 0; i < 1000; ++i) {
    const Status put = session->Put(KeyOf(i), ValueOf(i, 1));
    ASSERT_TRUE(put) << put.error().ToString();
  }
  ExpectSound(cluster);
}

TEST(RepairLossTest, NothingIsLostInAWholeStore) {
  TestCluster cluster(Options(2));
  ASSERT_NO_FATAL_FAILURE(Fill(cluster, 1000));
  const std::unique_ptr<Store> store = cluster.OpenStore();
  const Pairs before = Read(*store);
  const RepairReport report = Repair(*store, false);
  EXPECT_TRUE(report.lost_servers.empty());
  EXPECT_EQ(report.lost_leaves + report.lost_values, 0u);
  EXPECT_EQ(report.keys, 1000u);
  EXPECT_EQ(Read(*store), before);
}

// A compute server that was open before forgets the server, too.
TEST(RepairLossTest, AServerThatIsGoneForGoodIsNoTroubleAfterwards) {
  TestCluster cluster(Options(3));
  ASSERT_NO_FATAL_FAILURE(Fill(cluster, 1000));
  const std::unique_ptr<Store> store = cluster.OpenStore();
  EXPECT_EQ(store->Stat().value().servers.size(), 3u);
  cluster.Kill(kOther);
  Repair(*store, false);
  const Result<StoreStat> stat = store->Stat();
  ASSERT_TRUE(stat) << stat.error().ToString();
  ASSERT_EQ(stat.value().servers.size(), 2u);
  for (const ServerStat& server : stat.value().servers) EXPECT_EQ(server.unreachable, "");
  const Result<SweepReport> swept = store->Sweep({});
  ASSERT_TRUE(swept) << swept.error().ToString();
  const Result<bool> needs = store->NeedsSweep();
  ASSERT_TRUE(needs) << needs.error().ToString();
  EXPECT_FALSE(needs.value());
}

// Blocks on living servers whose leaf is lost.
TEST(RepairLossTest, WhatOnlyLostNodesNamedIsSwept) {
  TestCluster cluster(Options(3));
  ASSERT_NO_FATAL_FAILURE(Fill(cluster, 2000));
  const auto lost_bytes = [&cluster] {
    uint64_t lost = 0;
    for (const auto& [server, memory] : cluster.Check().memory) lost += memory.lost_bytes;
    return lost;
  };
  ASSERT_EQ(lost_bytes(), 0u);
  const auto needs_sweep = [&cluster] { return cluster.OpenStore()->NeedsSweep().value(); };
  EXPECT_FALSE(needs_sweep());
  cluster.Kill(kOther);
  EXPECT_FALSE(needs_sweep());
  Repair(*cluster.OpenStore(), false);
  ASSERT_GT(lost_bytes(), 0u);
  EXPECT_TRUE(needs_sweep());
  ASSERT_TRUE(cluster.OpenStore()->Sweep({}));
  EXPECT_EQ(lost_bytes(), 0u);
}

// Rule P4. What another compute server read before may lead it to leaves that only lost nodes name.
TEST(RepairLossTest, NothingIsChangedWhileAnotherMayGoByWhatItReadBefore) {
  TestCluster cluster(Options(2));
  ASSERT_NO_FATAL_FAILURE(Fill(cluster, 500));
  const std::unique_ptr<Store> others = cluster.OpenStore();
  const std::unique_ptr<Session> theirs = others->NewSession().value();
  cluster.Kill(kOther);
  // It is under way until it is polled.
  auto& session = static_cast<OpenSession&>(*theirs);
  const auto get = [](OpenSession& of) -> Task<void> {
    static_cast<void>(co_await of.AsyncGet(KeyOf(1)));
  };
  session.Spawn(get(session));

  const std::unique_ptr<Store> store = cluster.OpenStore();
  std::atomic<bool> has_ended = false;
  std::thread repair([&] {
    Repair(*store, false);
    has_ended = true;
  });
  std::vector<MissingKeys> missing;
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    Read(*store, &missing);
    EXPECT_FALSE(missing.empty());
  }
  EXPECT_FALSE(has_ended);
  session.WaitAll();
  repair.join();
  Read(*store, &missing);
  EXPECT_TRUE(missing.empty());
  ExpectSound(cluster);
}

// The client of a repair dies at each of its verbs in turn, with that verb done or not. The next
// repair finishes it.
TEST(RepairLossTest, ADeathAtAnyVerbLeavesATreeThatCanBeRepaired) {
  for (const uint64_t applied : {0, 1}) {
    bool has_broken = true;
    for (uint64_t break_at = 1; has_broken; break_at += break_at / 6 + 1) {
      SCOPED_TRACE(fmt::format("verb {}, applied {}", break_at, applied));
      TestCluster cluster(Options(2));
      ASSERT_NO_FATAL_FAILURE(Fill(cluster, 100));
      Pairs left;
      FaultPlan plan;
      {
        TestClient client(cluster);
        cluster.Kill(kOther);
        std::vector<MissingKeys> missing;
        left = Read(*cluster.OpenStore(), &missing);
        plan.break_at = break_at;
        plan.applied = applied;
        const std::unique_ptr<OpenSession> session = client.NewSession(plan);
        LossRepairer repairer(session->tree().context(), {{kOther}, false, {}});
        const Result<RepairReport> report = session->RunToEnd(repairer.Run());
        has_broken = plan.broke;
        EXPECT_EQ(report.has_value(), !has_broken);
      }
      const std::unique_ptr<Store> store = cluster.OpenStore();
      Repair(*store, false);
      ASSERT_EQ(Read(*store), left);
      ExpectSound(cluster);
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace gossamer
