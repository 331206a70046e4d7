// What compute servers left behind that died comes back, while others work.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/testing/seed.h"
#include "compute/store/keeping/used_memory.h"
#include "compute/store/testing/test_cluster.h"
#include "proto/test_support.h"

namespace gossamer {
namespace {

TEST(UsedMemoryTest, RangesAreDisjoint) {
  constexpr ServerId kServer{3};
  constexpr auto kNodes = control::ExtentKind::kNodes;
  UsedMemory used;
  EXPECT_TRUE(used.Add(kServer, 100, 100, kNodes));
  EXPECT_TRUE(used.Add(kServer, 300, 10, kNodes));
  EXPECT_TRUE(used.Add(kServer, 310, 10, kNodes));
  EXPECT_FALSE(used.Add(kServer, 120, 10, kNodes)) << "within another piece";
  MemoryRanges expected(MemoryRange(100, 200));
  expected.add({300, 320});
  EXPECT_EQ(used.RangesOf(kServer), expected);
  EXPECT_EQ(used.RangesOf(kServer).iterative_size(), 2U);
  EXPECT_TRUE(used.RangesOf(ServerId{0}).empty());
}

class SweepTest : public testing::Test {
 protected:
  using Model = std::map<std::string, std::string>;

  SweepTest() {
    ClusterOptions options;
    options.parameters = {1024, 8, 8};
    options.servers = 2;
    options.memory_bytes = uint64_t{64} << 20;
    cluster_ = std::make_unique<TestCluster>(options);
    store_ = cluster_->OpenStore();
    session_ = std::move(store_->NewSession().value());
  }

  // Puts and deletes keys of `share`, as remembered in `model`.
  static void Churn(Session& session, std::mt19937_64& random, Model& model, uint64_t share,
                    int operations) {
    for (int i = 0; i < operations; ++i) {
      const std::string key = NumberKey(random() % 2000 * 8 + share);
      if (random() % 3 == 0) {
        ASSERT_EQ(session.Delete(key).has_value(), model.erase(key) != 0);
        continue;
      }
      const std::string value(random() % 3 == 0 ? 100 + random() % 200 : 8, 'a');
      const Status put = session.Put(key, value);
      ASSERT_TRUE(put) << put.error().ToString();
      model[key] = value;
    }
  }
  // A compute server churns, and dies.
  void Die(uint64_t share) {
    TestClient client(*cluster_);
    const std::unique_ptr<OpenSession> session = client.NewSession();
    Churn(*session, random_, models_[share], share, 600);
  }
  SweepReport Sweep() {
    Result<SweepReport> report = store_->Sweep({});
    EXPECT_TRUE(report) << report.error().ToString();
    return report ? report.value() : SweepReport{};
  }
  void ExpectContent() {
    Model all;
    for (const auto& [share, model] : models_) all.insert(model.begin(), model.end());
    Model seen;
    const std::unique_ptr<ScanCursor> cursor = session_->Scan({});
    while (cursor->Next()) seen.emplace(cursor->key(), cursor->value());
    ASSERT_TRUE(cursor->status()) << cursor->status().error().ToString();
    EXPECT_TRUE(seen == all);
  }
  uint64_t Lost() {
    uint64_t lost = 0;
    const CheckReport report = cluster_->Check();
    EXPECT_EQ(report.problems, std::vector<std::string>{});
    for (const auto& [server, memory] : report.memory) {
      EXPECT_EQ(memory.live_bytes + memory.free_bytes + memory.kept_bytes + memory.waiting_bytes +
                    memory.lost_bytes,
                memory.heap_bytes);
      lost += memory.lost_bytes;
    }
    return lost;
  }

  std::mt19937_64 random_{TestSeed()};
  std::unique_ptr<TestCluster> cluster_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Session> session_;
  std::map<uint64_t, Model> models_;
};

TEST_F(SweepTest, IsNeededOnceAClientHasDied) {
  const auto needs_sweep = [this] {
    const Result<bool> needs = store_->NeedsSweep();
    EXPECT_TRUE(needs) << needs.error().ToString();
    return needs && needs.value();
  };
  EXPECT_FALSE(needs_sweep());
  // A client that closes its store gives back what it does not use.
  {
    const std::unique_ptr<Store> other = cluster_->OpenStore();
    Churn(*other->NewSession().value(), random_, models_[4], 4, 600);
  }
  EXPECT_FALSE(needs_sweep());
  EXPECT_EQ(Lost(), 0u);
  EXPECT_EQ(store_->SweepIfNeeded({}).value(), std::nullopt);

  ASSERT_NO_FATAL_FAILURE(Die(0));
  EXPECT_TRUE(needs_sweep());
  const uint64_t lost = Lost();
  EXPECT_GT(lost, 0u);
  const Result<std::optional<SweepReport>> stopped =
      store_->SweepIfNeeded([](const SweepProgress&) { return false; });
  ASSERT_TRUE(stopped && stopped.value());
  EXPECT_TRUE(stopped.value()->was_stopped);
  EXPECT_TRUE(needs_sweep());
  const Result<std::optional<SweepReport>> done = store_->SweepIfNeeded({});
  ASSERT_TRUE(done && done.value()) << "a sweep that was stopped is not under way any more";
  uint64_t swept = 0;
  for (const auto& [server, memory] : done.value()->servers) swept += memory.swept_bytes;
  EXPECT_EQ(swept, lost);
  EXPECT_FALSE(needs_sweep());
  EXPECT_EQ(Lost(), 0u);
  ExpectContent();
}

// Of two compute servers that see the need, one sweeps.
TEST_F(SweepTest, OneOfTwoSweeps) {
  ASSERT_NO_FATAL_FAILURE(Die(0));
  const std::unique_ptr<Store> other = cluster_->OpenStore();
  bool was_asked = false;
  const auto swept = store_->SweepIfNeeded([&](const SweepProgress&) {
    was_asked = true;
    const auto second = other->SweepIfNeeded({});
    EXPECT_TRUE(second) << second.error().ToString();
    EXPECT_TRUE(second && !second.value()) << "two sweep at a time";
    return true;
  });
  EXPECT_TRUE(was_asked);
  ASSERT_TRUE(swept && swept.value());
  EXPECT_EQ(other->SweepIfNeeded({}).value(), std::nullopt) << "it is done";
}

TEST_F(SweepTest, WhatTheDeadLeftComesBack) {
  for (uint64_t share = 0; share < 4; ++share) ASSERT_NO_FATAL_FAILURE(Die(share));
  const uint64_t lost = Lost();
  EXPECT_GT(lost, uint64_t{1} << 20);
  uint64_t swept = 0;
  for (const auto& [server, memory] : Sweep().servers) {
    swept += memory.swept_bytes;
    EXPECT_EQ(memory.left_bytes, 0u);
  }
  EXPECT_EQ(swept, lost);
  EXPECT_EQ(Lost(), 0u);
  ExpectContent();
  // What is swept can be used again.
  for (uint64_t share = 4; share < 8; ++share) ASSERT_NO_FATAL_FAILURE(Die(share));
  ASSERT_NO_FATAL_FAILURE(Churn(*session_, random_, models_[0], 0, 2000));
  ExpectContent();
  EXPECT_EQ(Sweep().servers.size(), 2u);
  EXPECT_EQ(Lost(), 0u);
  ExpectContent();
}

// Its splitter died before it told the parent.
TEST_F(SweepTest, ALeafWithoutADownlinkIsNotLost) {
  {
    TestClient mortal(*cluster_);
    const std::unique_ptr<OpenSession> session = mortal.NewSession();
    for (uint64_t i = 0; i < 400; ++i) {
      const std::string key = NumberKey(i);
      ASSERT_TRUE(session->Put(key, "12345678"));
      models_[0][key] = "12345678";
    }
    const RootWord root = mortal.Root();
    ASSERT_EQ(root.level(), 1u);
    mortal.RemoveDownlink(root.pointer());
  }
  uint64_t lost = 0;
  while (lost == 0) lost = Lost();  // until its lease has ended
  uint64_t measured = 0;
  const StoreUse use = store_->MeasureMemory({}).value();
  for (const auto& [server, memory] : use.servers) {
    measured += memory.lost_bytes;
  }
  EXPECT_EQ(measured, lost);
  ExpectContent();
}

TEST_F(SweepTest, NothingIsTakenFromTheLiving) {
  ASSERT_NO_FATAL_FAILURE(Churn(*session_, random_, models_[0], 0, 2000));
  for (const auto& [server, memory] : Sweep().servers) EXPECT_EQ(memory.swept_bytes, 0u);
  ASSERT_NO_FATAL_FAILURE(Churn(*session_, random_, models_[0], 0, 2000));
  ExpectContent();
  EXPECT_EQ(Lost(), 0u);
}

TEST_F(SweepTest, OthersWorkMeanwhileAndSweepToo) {
  constexpr uint64_t kWriters = 2;
  std::atomic<bool> stops = false;
  std::vector<std::thread> writers;
  for (uint64_t i = 0; i < kWriters; ++i) {
    models_[i];
    writers.emplace_back([&, i] {
      std::mt19937_64 random(TestSeed() + i);
      const std::unique_ptr<Store> store = cluster_->OpenStore();
      const std::unique_ptr<Session> session = std::move(store->NewSession().value());
      while (!stops) ASSERT_NO_FATAL_FAILURE(Churn(*session, random, models_.at(i), i, 100));
    });
  }
  const std::unique_ptr<Store> other = cluster_->OpenStore();
  for (int round = 0; round < 4; ++round) {
    for (uint64_t share = kWriters; share < kWriters + 3; ++share) {
      ASSERT_NO_FATAL_FAILURE(Die(share));
    }
    std::thread second([&] {
      const Result<SweepReport> swept = other->Sweep({});
      EXPECT_TRUE(swept) << swept.error().ToString();
    });
    Sweep();
    second.join();
  }
  stops = true;
  for (std::thread& writer : writers) writer.join();
  ExpectContent();
  EXPECT_EQ(Lost(), 0u);
}

// A cursor may rest for any time. What it has read ahead may be another's by then.
TEST_F(SweepTest, ACursorGoesOnAfterASweep) {
  ASSERT_NO_FATAL_FAILURE(Die(0));
  ASSERT_NO_FATAL_FAILURE(Die(1));
  Model& model = models_[0];
  Model expected;
  for (const auto& [share, one] : models_) expected.insert(one.begin(), one.end());
  const std::unique_ptr<ScanCursor> cursor = session_->Scan({});
  auto at = expected.begin();
  for (int i = 0; i < 100; ++i, ++at) {
    ASSERT_TRUE(cursor->Next());
    ASSERT_EQ(cursor->key(), at->first);
  }
  const std::unique_ptr<Store> other = cluster_->OpenStore();
  const std::unique_ptr<Session> session = std::move(other->NewSession().value());
  const std::string last = at->first;
  while (!model.empty() && model.rbegin()->first > last) {
    const std::string key = model.rbegin()->first;
    ASSERT_TRUE(session->Delete(key));
    model.erase(key);
    expected.erase(key);
  }
  Sweep();
  ASSERT_NO_FATAL_FAILURE(Die(2));
  // The page that it had is what it was; behind it, nothing is that was deleted long before.
  std::string before(cursor->key());
  size_t seen = 0;
  while (cursor->Next()) {
    ASSERT_GT(cursor->key(), before);
    before = cursor->key();
    ++seen;
  }
  ASSERT_TRUE(cursor->status());
  EXPECT_GT(seen, 0u);
}

}  // namespace
}  // namespace gossamer
