#include "compute/bench/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

namespace gossamer::bench {
namespace {

constexpr uint64_t kDraws = 200'000;

TEST(WorkloadTest, OnlyAToFAndUAreKnown) {
  for (const char* name : {"a", "b", "c", "d", "e", "f", "u"}) {
    ASSERT_TRUE(FindWorkload(name));
    EXPECT_EQ(FindWorkload(name)->name, name[0]);
  }
  for (const char* name : {"", "g", "A", "ab"}) EXPECT_FALSE(FindWorkload(name)) << name;
  for (const char* name : {"uniform", "zipfian", "latest"}) {
    EXPECT_EQ(DistributionName(*ParseDistribution(name)), name);
  }
  EXPECT_FALSE(ParseDistribution("normal"));
}

TEST(WorkloadTest, MixesAndDefaultsAreThoseOfYcsb) {
  struct Expected {
    const char* name;
    std::array<double, kBenchOperations> share;  // read, update, insert, scan, read-modify-write
    Distribution distribution;
  };
  const Expected workloads[] = {
      {"a", {0.50, 0.50, 0, 0, 0}, Distribution::kZipfian},
      {"b", {0.95, 0.05, 0, 0, 0}, Distribution::kZipfian},
      {"c", {1.00, 0, 0, 0, 0}, Distribution::kZipfian},
      {"d", {0.95, 0, 0.05, 0, 0}, Distribution::kLatest},
      {"e", {0, 0, 0.05, 0.95, 0}, Distribution::kZipfian},
      {"f", {0.50, 0, 0, 0, 0.50}, Distribution::kZipfian},
      {"u", {0, 1.00, 0, 0, 0}, Distribution::kZipfian},
  };
  for (const Expected& expected : workloads) {
    SCOPED_TRACE(expected.name);
    const Workload workload = *FindWorkload(expected.name);
    EXPECT_EQ(workload.distribution, expected.distribution);
    RecordIds ids(1'000, kDraws);
    OperationStream stream(workload, 0.99, 42, 0, ids);
    std::array<uint64_t, kBenchOperations> counts{};
    for (uint64_t i = 0; i < kDraws; ++i) {
      const DrawnOperation operation = stream.Next();
      ++counts[static_cast<size_t>(operation.kind)];
      if (operation.kind == BenchOperation::kInsert) {
        ASSERT_EQ(operation.id, ids.acknowledged());
        ids.Acknowledge(operation.id);
      } else {
        ASSERT_LT(operation.id, ids.acknowledged());
      }
    }
    for (size_t kind = 0; kind < kBenchOperations; ++kind) {
      EXPECT_NEAR(static_cast<double>(counts[kind]) / kDraws, expected.share[kind], 0.005);
      EXPECT_EQ(counts[kind] == 0, expected.share[kind] == 0);
    }
  }
}

TEST(WorkloadTest, ScansAreOfOneToAHundredKeysUniformly) {
  RecordIds ids(1'000, kDraws);
  OperationStream stream(*FindWorkload("e"), 0.99, 42, 0, ids);
  std::map<uint32_t, uint64_t> lengths;
  uint64_t scans = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const DrawnOperation operation = stream.Next();
    if (operation.kind != BenchOperation::kScan) continue;
    ++lengths[operation.scan_length];
    ++scans;
  }
  EXPECT_EQ(lengths.begin()->first, 1u);
  EXPECT_EQ(lengths.rbegin()->first, 100u);
  for (const auto& [length, count] : lengths) {
    EXPECT_NEAR(static_cast<double>(count), static_cast<double>(scans) / 100, 250) << length;
  }
}

TEST(WorkloadTest, SameSeedAndThreadSameOperations) {
  RecordIds ids(1'000, 0);
  OperationStream a(*FindWorkload("a"), 0.99, 42, 1, ids);
  OperationStream b(*FindWorkload("a"), 0.99, 42, 1, ids);
  OperationStream other(*FindWorkload("a"), 0.99, 42, 2, ids);
  uint64_t differences = 0;
  for (int i = 0; i < 1'000; ++i) {
    const DrawnOperation operation = a.Next();
    const DrawnOperation same = b.Next();
    EXPECT_EQ(operation.id, same.id);
    EXPECT_EQ(operation.kind, same.kind);
    differences += operation.id != other.Next().id;
  }
  EXPECT_GT(differences, 500u);
}

TEST(RecordIdsTest, AcknowledgesOnlyWithoutGaps) {
  RecordIds ids(10, 100);
  for (uint64_t id = 10; id < 14; ++id) EXPECT_EQ(ids.TakeNext(), id);
  ids.Acknowledge(11);
  ids.Acknowledge(13);
  EXPECT_EQ(ids.acknowledged(), 10u);
  ids.Acknowledge(10);
  EXPECT_EQ(ids.acknowledged(), 12u);
  ids.Acknowledge(12);
  EXPECT_EQ(ids.acknowledged(), 14u);
}

TEST(RecordIdsTest, ProcessesInsertAllIdsAndNoneTwice) {
  for (const uint32_t processes : {1u, 2u, 7u}) {
    std::set<uint64_t> taken;
    for (uint32_t rank = 0; rank < processes; ++rank) {
      RecordIds ids(10, 30, {.processes = processes, .rank = rank});
      for (uint64_t i = 0; i < 30; ++i) {
        const uint64_t id = ids.TakeNext();
        EXPECT_TRUE(taken.insert(id).second) << id;
        ids.Acknowledge(id);
        EXPECT_EQ(ids.acknowledged(), 11 + i);
        EXPECT_EQ(ids.IdAt(10 + i), id);
      }
      for (uint64_t place = 0; place < 10; ++place) EXPECT_EQ(ids.IdAt(place), place);
    }
    EXPECT_EQ(*taken.begin(), 10u);
    EXPECT_EQ(*taken.rbegin(), 9 + uint64_t{30} * processes);
  }
}

TEST(ShareTest, SharesAreAllAndDoNotOverlap) {
  for (const uint64_t total : {0u, 1u, 5u, 1'000u}) {
    for (const uint32_t processes : {1u, 2u, 7u, 128u}) {
      uint64_t next = 0;
      for (uint32_t rank = 0; rank < processes; ++rank) {
        const Share share{.processes = processes, .rank = rank};
        EXPECT_EQ(share.First(total), next);
        next = share.Past(total);
        EXPECT_LE(next - share.First(total), total / processes + 1);
      }
      EXPECT_EQ(next, total);
    }
  }
}

TEST(RecordIdsTest, ThreadsTogetherAcknowledgeEverything) {
  constexpr uint64_t kInserts = 100'000;
  RecordIds ids(1, kInserts);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&ids] {
      for (uint64_t i = 0; i < kInserts / 4; ++i) ids.Acknowledge(ids.TakeNext());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ids.acknowledged(), kInserts + 1);
}

// ---- distributions

TEST(ZetaTest, EqualsTheSum) {
  for (const double theta : {0.01, 0.5, 0.9, 0.99}) {
    for (const uint64_t n : {1u, 2u, 3u, 100u, 1'999u, 2'000u, 2'001u, 5'000u, 1'000'000u}) {
      double sum = 0;
      for (uint64_t i = n; i > 0; --i) sum += std::pow(static_cast<double>(i), -theta);
      EXPECT_NEAR(Zeta(n, theta) / sum, 1, 1e-11) << n << ", theta " << theta;
    }
  }
}

TEST(ZetaTest, IsTheConstantOfYcsb) {
  // ScrambledZipfianGenerator.ZETAN, for 10^10 items and theta 0.99.
  EXPECT_NEAR(Zeta(ScrambledZipfian::kRanks, 0.99), 26.46902820178302, 1e-8);
}

TEST(ZipfianTest, PopularRanksHaveTheirShare) {
  constexpr uint64_t kItems = 1'000;
  for (const double theta : {0.5, 0.9, 0.99}) {
    SCOPED_TRACE(theta);
    const Zipfian zipfian(kItems, theta);
    Random random(3);
    std::vector<uint64_t> counts(kItems);
    for (uint64_t i = 0; i < kDraws; ++i) ++counts[zipfian.Draw(random)];
    const double zeta = Zeta(kItems, theta);
    const double share_of_first = 1 / zeta;
    const double share_of_second = std::pow(2, -theta) / zeta;
    const auto tolerance = [](double share) { return 5 * std::sqrt(share / kDraws); };
    EXPECT_NEAR(static_cast<double>(counts[0]) / kDraws, share_of_first, tolerance(share_of_first));
    EXPECT_NEAR(static_cast<double>(counts[1]) / kDraws, share_of_second,
                tolerance(share_of_second));
    // The continuous formula is an approximation: over ranges of ranks it is within a few per cent.
    for (const uint64_t below : {10u, 100u, 500u}) {
      uint64_t drawn = 0;
      for (uint64_t rank = 0; rank < below; ++rank) drawn += counts[rank];
      EXPECT_NEAR(static_cast<double>(drawn) / kDraws, Zeta(below, theta) / zeta, 0.03) << below;
    }
  }
}

TEST(ZipfianTest, FewItemsAreAllDrawn) {
  Random random(4);
  for (uint64_t items = 1; items <= 4; ++items) {
    const Zipfian zipfian(items, 0.99);
    std::set<uint64_t> seen;
    for (int i = 0; i < 10'000; ++i) seen.insert(zipfian.Draw(random));
    EXPECT_EQ(seen.size(), items);
    EXPECT_EQ(*seen.rbegin(), items - 1);
  }
}

TEST(ScrambledZipfianTest, HasTheSkewOfYcsbSpreadOverAllRecords) {
  constexpr uint64_t kRecords = 10'000;
  const ScrambledZipfian zipfian(0.99);
  Random random(5);
  std::vector<uint64_t> counts(kRecords);
  for (uint64_t i = 0; i < kDraws; ++i) ++counts[zipfian.Draw(random, kRecords)];
  const uint64_t most = *std::max_element(counts.begin(), counts.end());
  EXPECT_EQ(counts[FnvHash(0) % kRecords], most);
  EXPECT_NEAR(static_cast<double>(most) / kDraws, 1 / 26.469, 0.003);
  // The tenths of the records share the accesses that the popular ones leave: none is empty, none
  // has most.
  for (uint64_t tenth = 0; tenth < 10; ++tenth) {
    uint64_t drawn = 0;
    for (uint64_t id = tenth * kRecords / 10; id < (tenth + 1) * kRecords / 10; ++id) {
      drawn += counts[id];
    }
    EXPECT_GT(drawn, kDraws / 20);
    EXPECT_LT(drawn, kDraws / 4);
  }
}

TEST(LatestTest, FavoursTheNewestAsRecordsGrow) {
  Latest latest(0.99);
  Random random(6);
  for (const uint64_t records : {1u, 2u, 1'000u, 1'001u, 100'000u}) {
    uint64_t newest = 0;
    for (uint64_t i = 0; i < kDraws; ++i) {
      const uint64_t id = latest.Draw(random, records);
      ASSERT_LT(id, records);
      newest += id == records - 1;
    }
    const double share = 1 / Zeta(records, 0.99);
    EXPECT_NEAR(static_cast<double>(newest) / kDraws, share, 5 * std::sqrt(share / kDraws) + 1e-3)
        << records << " records";
  }
}

TEST(UniformTest, DrawsAllRecordsAlike) {
  constexpr uint64_t kRecords = 100;
  Workload workload = *FindWorkload("c");
  workload.distribution = Distribution::kUniform;
  RecordIds ids(kRecords, 0);
  OperationStream stream(workload, 0.99, 7, 0, ids);
  std::vector<uint64_t> counts(kRecords);
  for (uint64_t i = 0; i < kDraws; ++i) ++counts[stream.Next().id];
  for (const uint64_t count : counts) {
    EXPECT_NEAR(static_cast<double>(count), double{kDraws} / kRecords, 250);
  }
}

// A run that inserts far more than was loaded still ends, and draws only existing ids.
TEST(WorkloadTest, ManyInsertsIntoOneRecord) {
  RecordIds ids(1, kDraws);
  OperationStream stream(*FindWorkload("e"), 0.99, 42, 0, ids);
  for (uint64_t i = 0; i < kDraws; ++i) {
    const DrawnOperation operation = stream.Next();
    if (operation.kind == BenchOperation::kInsert) {
      ids.Acknowledge(operation.id);
    } else {
      ASSERT_LT(operation.id, ids.acknowledged());
    }
  }
}

}  // namespace
}  // namespace gossamer::bench
