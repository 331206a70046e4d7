// The value of the internal-node cache at each size, and the cost of stale entries until their
// repair.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/random.h"
#include "common/testing/seed.h"
#include "compute/bench/zipfian.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

// Small nodes: many internal nodes, on four levels.
constexpr StoreParameters kSmallNodes = {256, 8, 8};
constexpr uint64_t kKeys = 40'000;
constexpr uint64_t kGets = 10'000;
constexpr uint64_t kAmple = uint64_t{64} << 20;
constexpr size_t kSizes = 16;

class CacheUpkeepTest : public testing::Test {
 protected:
  struct Client {
    std::unique_ptr<Store> store;
    std::unique_ptr<Session> session;
  };

  CacheUpkeepTest()
      : cluster_({.parameters = kSmallNodes,
                  .memory_bytes = uint64_t{64} << 20,
                  .memory_bytes_of = {}}) {}

  Client Open(uint64_t cache_bytes) {
    Client client{cluster_.OpenStore(10'000, cache_bytes), nullptr};
    client.session = std::move(client.store->NewSession().value());
    return client;
  }
  // Spreads numbers over all keys, one to one.
  static std::string KeyOf(uint64_t number) { return NumberKey(SplitMix64::Mix(number)); }
  static void Insert(Session& session, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) {
      const Status status = session.Insert(KeyOf(i), "12345678");
      ASSERT_TRUE(status) << status.error().ToString();
    }
  }
  static void GetAll(Session& session, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) ASSERT_TRUE(session.Get(KeyOf(i)));
  }
  uint32_t Levels() { return cluster_.OpenStore()->Stat().value().levels; }
  // Bytes of the cache when it holds every internal node.
  uint64_t BytesOfAll() {
    const Client client = Open(kAmple);
    GetAll(*client.session, kKeys);
    return client.session->counters().cache.bytes;
  }
  // The hit rate of gets of the keys that draw() returns, with a cache of so many bytes.
  template <typename Draw>
  double HitRate(uint64_t cache_bytes, Draw&& draw);
  // The hit rates of sizes from nothing to `all` bytes, in equal steps.
  template <typename Draw>
  std::vector<double> HitRates(uint64_t all, Draw&& draw) {
    std::vector<double> rates;
    for (size_t i = 0; i <= kSizes; ++i) rates.push_back(HitRate(all * i / kSizes, draw));
    return rates;
  }

  // The rate grows from 0 to 1. A larger cache is never worse except by chance, and no step gains
  // much more than its share. Chance: two rates of kGets draws each differ by a standard deviation
  // of at most 0.007.
  static void ExpectEvenGrowth(const std::vector<double>& rates, double extra) {
    const double share = 1.0 / kSizes;
    EXPECT_EQ(rates.front(), 0.0);
    EXPECT_EQ(rates.back(), 1.0);
    for (size_t i = 1; i < rates.size(); ++i) {
      EXPECT_GE(rates[i], rates[i - 1] - 0.01) << testing::PrintToString(rates);
      EXPECT_LE(rates[i], rates[i - 1] + share + extra) << testing::PrintToString(rates);
    }
  }

  Random random_{TestSeed()};
  TestCluster cluster_;
};

template <typename Draw>
double CacheUpkeepTest::HitRate(uint64_t cache_bytes, Draw&& draw) {
  const Client client = Open(cache_bytes);
  Session& session = *client.session;
  const uint64_t levels = Levels();
  Counters before;
  for (uint64_t i = 0; i < 3 * kGets; ++i) {
    // Skewed draws may leave out all keys of a node.
    if (i == kGets) GetAll(session, kKeys);
    if (i == 2 * kGets) before = session.counters();
    const Counters last = session.counters();
    EXPECT_TRUE(session.Get(KeyOf(draw())));
    const Counters now = session.counters();
    EXPECT_LE(now.cache.bytes, cache_bytes);
    // However small the cache: root word, each internal node once, group and overflow group. And
    // the session's registration.
    EXPECT_LE(now.of(OperationClass::kRead).round_trips,
              last.of(OperationClass::kRead).round_trips + 1 + (levels - 1) + 2 + (i == 0 ? 1 : 0));
    if (HasFailure()) break;
  }
  const Counters after = session.counters();
  EXPECT_EQ(after.cache.stale, 0u);
  const uint64_t hits = after.cache.hits - before.cache.hits;
  const uint64_t misses = after.cache.misses - before.cache.misses;
  EXPECT_EQ(hits + misses, kGets);
  return static_cast<double>(hits) / static_cast<double>(kGets);
}

TEST_F(CacheUpkeepTest, HitRateOfUniformGetsGrowsWithTheCacheEvenly) {
  ASSERT_NO_FATAL_FAILURE(Insert(*Open(kAmple).session, 0, kKeys));
  const uint64_t all = BytesOfAll();
  const std::vector<double> rates = HitRates(all, [&] { return random_.Below(kKeys); });
  ExpectEvenGrowth(rates, 0.05);
  // Little is lost to nodes above the leaves' parents and to the order of eviction.
  for (size_t i = 0; i <= kSizes; ++i) {
    EXPECT_GE(rates[i] + 0.08, static_cast<double>(i) / kSizes) << testing::PrintToString(rates);
  }
}

TEST_F(CacheUpkeepTest, HitRateOfSkewedGetsGrowsWithTheCacheAndIsBetter) {
  ASSERT_NO_FATAL_FAILURE(Insert(*Open(kAmple).session, 0, kKeys));
  const uint64_t all = BytesOfAll();
  const bench::ScrambledZipfian zipfian(0.99);
  const std::vector<double> skewed = HitRates(all, [&] { return zipfian.Draw(random_, kKeys); });
  ExpectEvenGrowth(skewed, 0.06);
  // Frequently used nodes stay.
  for (const size_t i : {kSizes / 4, kSizes / 2, 3 * kSizes / 4}) {
    EXPECT_GT(skewed[i], HitRate(all * i / kSizes, [&] { return random_.Below(kKeys); }));
  }
}

// A cache that holds little more than the root costs no more than none. It costs no more than a
// smaller one either, except a little where the next node read replaces a more valuable one.
TEST_F(CacheUpkeepTest, RoundTripsNeverGrowWithTheCache) {
  ASSERT_NO_FATAL_FAILURE(Insert(*Open(kAmple).session, 0, kKeys));
  ASSERT_GE(Levels(), 3u);
  constexpr double kLost = 0.2;
  double least = 2 + Levels();
  for (const uint64_t bytes : {0, 300, 600, 900, 1200, 1600, 2000, 3000, 4000, 6000, 10'000}) {
    const Client client = Open(bytes);
    for (uint64_t i = 0; i < kGets; ++i) {
      EXPECT_TRUE(client.session->Get(KeyOf(random_.Below(kKeys))));
    }
    const WireCounts gets = client.session->counters().of(OperationClass::kRead);
    const double round_trips = static_cast<double>(gets.round_trips) / kGets;
    EXPECT_LE(round_trips, least + kLost) << bytes;
    least = std::min(least, round_trips);
  }
  EXPECT_LT(least, Levels());
}

TEST_F(CacheUpkeepTest, ACacheOfAnEighthCostsAtMostOneMoreRoundTripAGet) {
  // Enough that the cache holds more than the nodes above the parents of leaves.
  constexpr uint64_t kMany = 2 * kKeys;
  ASSERT_NO_FATAL_FAILURE(Insert(*Open(kAmple).session, 0, kMany));
  const auto round_trips = [&](uint64_t cache_bytes) {
    const Client client = Open(cache_bytes);
    WireCounts warming;
    for (uint64_t i = 0; i < 2 * kGets; ++i) {
      if (i == kGets) warming = client.session->counters().of(OperationClass::kRead);
      EXPECT_TRUE(client.session->Get(KeyOf(random_.Below(kMany))));
    }
    const WireCounts gets = client.session->counters().of(OperationClass::kRead);
    return static_cast<double>(gets.round_trips - warming.round_trips) / kGets;
  };
  EXPECT_LE(round_trips(BytesOfAll() / 8), round_trips(kAmple) + 1);
}

TEST_F(CacheUpkeepTest, AScanReadsEachParentOnceHoweverFullTheCacheIs) {
  ASSERT_NO_FATAL_FAILURE(Insert(*Open(kAmple).session, 0, kKeys));
  const auto round_trips = [&](uint64_t cache_bytes) {
    const Client client = Open(cache_bytes);
    for (uint64_t i = 0; i < kGets; ++i) {
      EXPECT_TRUE(client.session->Get(KeyOf(random_.Below(kKeys))));
    }
    const std::unique_ptr<ScanCursor> cursor = client.session->Scan({});
    uint64_t keys = 0;
    while (cursor->Next()) ++keys;
    EXPECT_EQ(keys, kKeys);
    return client.session->counters().of(OperationClass::kScan).round_trips;
  };
  // Of many leaves a parent. To read a parent again for each leaf would take some 60 times as many.
  EXPECT_LE(round_trips(BytesOfAll() / 8), 6 * round_trips(kAmple));
}

TEST_F(CacheUpkeepTest, OwnSplitsLeaveNothingStaleWhateverTheSize) {
  ASSERT_NO_FATAL_FAILURE(Insert(*Open(kAmple).session, 0, kKeys));
  const uint64_t all = BytesOfAll();
  uint64_t count = kKeys;
  for (const uint64_t bytes : {uint64_t{0}, all / 16, all / 2, kAmple}) {
    const Client client = Open(bytes);
    for (uint64_t i = 0; i < 5'000; ++i) {
      ASSERT_NO_FATAL_FAILURE(Insert(*client.session, count, count + 1));
      ++count;
      ASSERT_LE(client.session->counters().cache.bytes, bytes);
    }
    EXPECT_GE(client.session->counters().of(OperationClass::kInsertSplit).operations, 300u);
    ASSERT_NO_FATAL_FAILURE(GetAll(*client.session, count));
    EXPECT_EQ(client.session->counters().cache.stale, 0u);
  }
}

TEST_F(CacheUpkeepTest, SplitsOfOthersArePaidForOnce) {
  const Client writer = Open(kAmple);
  ASSERT_NO_FATAL_FAILURE(Insert(*writer.session, 0, kKeys));
  const uint64_t all = BytesOfAll();
  const Client readers[] = {Open(kAmple), Open(all / 2)};
  for (const Client& reader : readers) ASSERT_NO_FATAL_FAILURE(GetAll(*reader.session, kKeys));
  const auto splits = [&writer] {
    return writer.session->counters().of(OperationClass::kInsertSplit).operations;
  };
  const uint64_t splits_before = splits();
  ASSERT_NO_FATAL_FAILURE(Insert(*writer.session, kKeys, 2 * kKeys));
  const uint64_t new_leaves = splits() - splits_before;
  ASSERT_GE(new_leaves, 1000u);
  const uint64_t levels = Levels();

  for (const Client& reader : readers) {
    Session& session = *reader.session;
    const auto cost_of_get = [&session](uint64_t number) {
      const uint64_t before = session.counters().of(OperationClass::kRead).round_trips;
      EXPECT_TRUE(session.Get(KeyOf(number)));
      return session.counters().of(OperationClass::kRead).round_trips - before;
    };
    const bool is_ample = &reader == &readers[0];
    uint64_t stale_gets = 0;
    uint64_t extra = 0;
    for (uint64_t i = 0; i < kKeys; ++i) {
      const uint64_t stale = session.counters().cache.stale;
      const uint64_t cost = cost_of_get(i);
      // The cost of a refresh is bounded, however far behind the path is (PROTOCOL.md, W7).
      ASSERT_LE(cost, 7 + levels);
      extra += cost - 1;
      if (session.counters().cache.stale == stale) continue;
      ++stale_gets;
      // Repaired: at most the overflow group, which no hint mentions yet, and nodes that a small
      // cache has evicted again.
      ASSERT_LE(cost_of_get(i), is_ample ? 2 : 2 + levels);
    }
    // A small cache has already read most of them again.
    EXPECT_GE(stale_gets, is_ample ? 100u : 1u);
    // One repair fetches all new leaves below one parent.
    EXPECT_LE(stale_gets, new_leaves / 2);
    if (is_ample) {
      EXPECT_LE(extra, new_leaves);
    }
    // Nothing is stale in the second round; all hints are known in the third.
    const CacheCounts once = session.counters().cache;
    ASSERT_NO_FATAL_FAILURE(GetAll(session, kKeys));
    EXPECT_EQ(session.counters().cache.stale, once.stale);
    if (!is_ample) continue;
    EXPECT_EQ(session.counters().cache.misses, once.misses);
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_EQ(cost_of_get(i), 1u);
  }
}

}  // namespace
}  // namespace gossamer
