// A cold cache becomes warm by READs of many internal nodes at a time: how many, and at whose cost.
#include <gtest/gtest.h>

#include "common/random.h"
#include "common/testing/seed.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

// Small nodes: many internal nodes, on four levels.
constexpr StoreParameters kSmallNodes = {256, 8, 8};
constexpr uint64_t kKeys = 40'000;
constexpr uint64_t kAmple = uint64_t{64} << 20;

class CacheFillTest : public testing::Test {
 protected:
  CacheFillTest()
      : cluster_({.parameters = kSmallNodes,
                  .memory_bytes = uint64_t{64} << 20,
                  .memory_bytes_of = {}}) {}

  void SetUp() override {
    store_ = cluster_.OpenStore();
    const std::unique_ptr<Session> session = NewSession(*store_);
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(session->Insert(KeyOf(i), "12345678"));
    const Result<CheckReport> report = store_->Check({});
    ASSERT_TRUE(report) << report.error().ToString();
    internal_nodes_ = report.value().internal_nodes;
    ASSERT_GT(internal_nodes_, 300u);
  }
  static std::unique_ptr<Session> NewSession(Store& store) {
    return std::move(store.NewSession().value());
  }
  static std::string KeyOf(uint64_t number) { return NumberKey(SplitMix64::Mix(number)); }
  // READs of internal nodes so far: the READs that are as long as a node, which no get of a leaf's
  // group is.
  static uint64_t NodesRead(const Counters& counters) {
    const WireCounts& gets = counters.of(OperationClass::kRead);
    const LeafGeometry geometry(kSmallNodes.node_bytes);
    const uint64_t more = gets.bytes_read - gets.reads * geometry.unit_bytes();
    EXPECT_EQ(more % (kSmallNodes.node_bytes - geometry.unit_bytes()), 0u);
    return more / (kSmallNodes.node_bytes - geometry.unit_bytes());
  }

  TestCluster cluster_;
  std::unique_ptr<Store> store_;
  uint64_t internal_nodes_ = 0;
};

TEST_F(CacheFillTest, GetsWarmAColdCacheWithFewMisses) {
  const std::unique_ptr<Store> cold = cluster_.OpenStore(10'000, kAmple);
  const std::unique_ptr<Session> session = NewSession(*cold);
  Random random(TestSeed());
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(session->Get(KeyOf(random.Below(kKeys))));
  const Counters before = session->counters();
  // Each node is READ once, by a get or ahead of one; few by both.
  const uint64_t read = NodesRead(before) + before.cache.filled;
  EXPECT_GE(read, internal_nodes_);
  EXPECT_LE(read, internal_nodes_ * 12 / 10);
  EXPECT_GT(before.cache.filled, internal_nodes_ * 7 / 10);
  EXPECT_EQ(before.cache.evictions, 0u);
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(session->Get(KeyOf(i)));
  const Counters after = session->counters();
  EXPECT_LE(after.cache.misses - before.cache.misses, 2u);
}

TEST_F(CacheFillTest, ManyAtATimeWarmItToo) {
  const std::unique_ptr<Store> cold = cluster_.OpenStore(10'000, kAmple);
  const std::unique_ptr<Session> one = NewSession(*cold);
  const std::unique_ptr<Session> other = NewSession(*cold);
  Random random(TestSeed());
  const auto get = [&random](Session& session) -> Task<void> {
    for (uint64_t i = 0; i < kKeys / 64; ++i) {
      EXPECT_TRUE(co_await session.AsyncGet(KeyOf(random.Below(kKeys))));
    }
  };
  for (int i = 0; i < 32; ++i) {
    one->Spawn(get(*one));
    other->Spawn(get(*other));
  }
  while (one->Poll() + other->Poll() != 0) {
  }
  const Counters counters = one->counters();
  EXPECT_GT(counters.cache.filled + other->counters().cache.filled, internal_nodes_ / 2);
  const uint64_t misses = counters.cache.misses;
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(one->Get(KeyOf(i)));
  EXPECT_LE(one->counters().cache.misses - misses, internal_nodes_ / 20);
}

TEST_F(CacheFillTest, AColdGetCostsWhatItsPathCosts) {
  const std::unique_ptr<Store> cold = cluster_.OpenStore(10'000, kAmple);
  const std::unique_ptr<Session> session = NewSession(*cold);
  ASSERT_TRUE(session->Get(KeyOf(1)));
  const Counters counters = session->counters();
  // The tree's levels but the leaf.
  EXPECT_EQ(NodesRead(counters), cold->Stat().value().levels - 1);
  EXPECT_EQ(counters.cache.filled, 0u);
}

TEST_F(CacheFillTest, ASmallCacheIsNotFilled) {
  const std::unique_ptr<Store> ample = cluster_.OpenStore(10'000, kAmple);
  const std::unique_ptr<Session> first = NewSession(*ample);
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(first->Get(KeyOf(i)));
  const uint64_t bytes = first->counters().cache.bytes;

  const std::unique_ptr<Store> small = cluster_.OpenStore(10'000, bytes / 4);
  const std::unique_ptr<Session> session = NewSession(*small);
  Random random(TestSeed());
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(session->Get(KeyOf(random.Below(kKeys))));
  const Counters counters = session->counters();
  // The levels above fit.
  EXPECT_LE(counters.cache.filled, internal_nodes_ / 5);
  EXPECT_LE(counters.cache.bytes, bytes / 4);
}

}  // namespace
}  // namespace gossamer
