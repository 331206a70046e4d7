// What operations cost, counted exactly: round trips, verbs and bytes of design section 5, and
// what leaves hold.
//
// Each test has a store of its own in this process; with GOSSAMER_TEST_BOOTSTRAP, it is one that
// runs already, empty, with the parameters of kEightByteStore, called as the test, and reached over
// GOSSAMER_TEST_FABRIC. As that may be slow, a tenth of the keys do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>

#include "common/testing/seed.h"
#include "gossamer/store.h"

namespace gossamer {
namespace {

constexpr StoreParameters kEightByteStore = {1024, 8, 8};
constexpr uint32_t kUnitBytes = 164;
constexpr uint32_t kLeafBytes = 1024;

class CostTest : public testing::Test {
 protected:
  static const char* Bootstrap() { return std::getenv("GOSSAMER_TEST_BOOTSTRAP"); }
  static size_t Scaled(size_t count) { return Bootstrap() == nullptr ? count : count / 10; }

  static Result<std::unique_ptr<Store>> OpenRunning() {
    OpenOptions options;
    options.bootstrap = Bootstrap();
    options.fabric = std::getenv("GOSSAMER_TEST_FABRIC");
    options.store = testing::UnitTest::GetInstance()->current_test_info()->name();
    return Store::Open(options);
  }
  static Result<std::unique_ptr<Store>> OpenLocal(const StoreParameters& parameters) {
    LocalOptions options;
    options.parameters = parameters;
    options.memory_bytes = uint64_t{128} << 20;
    return Store::OpenLocal(options);
  }
  void Open(const StoreParameters& parameters) {
    Result<std::unique_ptr<Store>> store =
        Bootstrap() == nullptr ? OpenLocal(parameters) : OpenRunning();
    ASSERT_TRUE(store) << store.error().ToString();
    ASSERT_EQ(store.value()->parameters(), parameters);
    store_ = std::move(store.value());
    Result<std::unique_ptr<Session>> session = store_->NewSession();
    ASSERT_TRUE(session) << session.error().ToString();
    session_ = std::move(session.value());
  }

  static std::string EightBytes(uint64_t number) {
    std::string key(8, '\0');
    for (int i = 7; i >= 0; --i, number >>= 8)
      key[static_cast<size_t>(i)] = static_cast<char>(number);
    return key;
  }
  void LoadRandom(size_t count) {
    for (size_t i = 0; i < Scaled(count); ++i) {
      keys_.push_back(EightBytes(random_()));
      ASSERT_TRUE(session_->Put(keys_.back(), "12345678"));
    }
  }
  // Reads everything once, so that the cache and its overflow hints know every leaf.
  void WarmUp() {
    const std::unique_ptr<ScanCursor> cursor = session_->Scan({});
    while (cursor->Next()) {
    }
    ASSERT_TRUE(cursor->status());
  }
  // What one call of `operate` adds to the counters of `kind`.
  template <typename Operate>
  WireCounts CostOf(OperationClass kind, Operate&& operate) {
    const WireCounts before = session_->counters().of(kind);
    operate();
    WireCounts cost = session_->counters().of(kind);
    cost.operations -= before.operations;
    cost.round_trips -= before.round_trips;
    cost.reads -= before.reads;
    cost.writes -= before.writes;
    cost.cas -= before.cas;
    cost.sends -= before.sends;
    cost.bytes_read -= before.bytes_read;
    cost.bytes_written -= before.bytes_written;
    return cost;
  }

  std::mt19937_64 random_{TestSeed()};
  std::vector<std::string> keys_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Session> session_;
};

TEST_F(CostTest, GetReadsOneGroupInOneRoundTrip) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(50'000));
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  WireCounts total;
  size_t one_group = 0;
  for (const std::string& key : keys_) {
    const WireCounts cost = CostOf(OperationClass::kRead, [&] { ASSERT_TRUE(session_->Get(key)); });
    ASSERT_EQ(cost.operations, 1u);
    ASSERT_EQ(cost.round_trips, 1u);
    ASSERT_EQ(cost.cas + cost.writes + cost.sends, 0u);
    ASSERT_EQ(cost.bytes_read, cost.reads * kUnitBytes);
    ASSERT_LE(cost.reads, 2u);
    one_group += cost.reads == 1 ? 1 : 0;
    total += cost;
  }
  const auto count = static_cast<double>(keys_.size());
  EXPECT_LE(static_cast<double>(total.round_trips) / count, 1.03);
  EXPECT_LE(static_cast<double>(total.bytes_read) / count, 190.0);
  EXPECT_GE(static_cast<double>(one_group) / count, 0.85);
}

TEST_F(CostTest, AnotherSessionLearnsTheHintsAsItReads) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(20'000));
  for (const std::string& key : keys_) ASSERT_TRUE(session_->Get(key));
  const WireCounts cost = CostOf(OperationClass::kRead, [&] {
    for (const std::string& key : keys_) ASSERT_TRUE(session_->Get(key));
  });
  EXPECT_EQ(cost.round_trips, cost.operations);
}

TEST_F(CostTest, WritesTakeTwoRoundTrips) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(20'000));
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  for (size_t i = 0; i < Scaled(2000); ++i) {
    const WireCounts update = CostOf(OperationClass::kUpdate,
                                     [&] { ASSERT_TRUE(session_->Update(keys_[i], "abcdefgh")); });
    ASSERT_EQ(update.round_trips, 2u);
    ASSERT_EQ(update.cas, 2u);
    ASSERT_EQ(update.writes, 1u);
    ASSERT_EQ(update.bytes_written, kUnitBytes);
    ASSERT_LE(update.reads, 2u);
    const WireCounts erase =
        CostOf(OperationClass::kDelete, [&] { ASSERT_TRUE(session_->Delete(keys_[i])); });
    ASSERT_EQ(erase.round_trips, 2u);
    ASSERT_EQ(erase.cas, 2u);
    ASSERT_EQ(erase.writes, 1u);
    // The slot is free again: an insert that needs no room elsewhere.
    const WireCounts insert = CostOf(OperationClass::kInsert,
                                     [&] { ASSERT_TRUE(session_->Insert(keys_[i], "ABCDEFGH")); });
    ASSERT_EQ(insert.operations, 1u);
    ASSERT_EQ(insert.cas, 2u);
    ASSERT_LE(insert.round_trips, 3u);  // 3: the home group has overflowed, and no hint told
    ASSERT_LE(insert.writes, 2u);
  }
}

// An insert of a key that is just being deleted cannot go along with the delete (rule W3): it gets the lock, and the
// leaf's bytes with it.
TEST_F(CostTest, AWriteWithALockHandedOverTakesOneRoundTrip) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(20'000));
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  for (size_t i = 0; i < Scaled(2000); ++i) {
    const std::string& key = keys_[i];
    WireCounts erase;
    const uint64_t handed_over = session_->counters().locks.handed_over;
    const WireCounts insert = CostOf(OperationClass::kInsert, [&] {
      erase = CostOf(OperationClass::kDelete, [&] {
        session_->Spawn([](Session& session, const std::string& k) -> Task<void> {
          EXPECT_TRUE(co_await session.AsyncDelete(k));
        }(*session_, key));
        session_->Spawn([](Session& session, const std::string& k) -> Task<void> {
          EXPECT_TRUE(co_await session.AsyncInsert(k, "ABCDEFGH"));
        }(*session_, key));
        session_->WaitAll();
      });
    });
    ASSERT_EQ(erase.operations + insert.operations, 2u);
    ASSERT_EQ(erase.round_trips, 2u);
    ASSERT_EQ(erase.cas, 1u);
    ASSERT_EQ(insert.cas, 1u);
    ASSERT_EQ(insert.round_trips, 1u + insert.reads);  // the overflow group, where no hint told
    ASSERT_EQ(session_->counters().locks.handed_over, handed_over + 1);
  }
}

TEST_F(CostTest, WritesThatWaitForOneLeafAreWrittenTogether) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(1'000));
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  const std::string& key = keys_.front();
  constexpr size_t kWriters = 40;
  const uint64_t combined = session_->counters().locks.combined;
  const WireCounts cost = CostOf(OperationClass::kUpdate, [&] {
    for (size_t i = 0; i < kWriters; ++i) {
      session_->Spawn([](Session& session, const std::string& k) -> Task<void> {
        EXPECT_TRUE(co_await session.AsyncUpdate(k, "abcdefgh"));
      }(*session_, key));
    }
    session_->WaitAll();
  });
  EXPECT_EQ(cost.operations, kWriters);
  EXPECT_EQ(cost.round_trips, 2u);
  EXPECT_EQ(cost.cas, 2u);
  EXPECT_EQ(cost.writes, 1u);
  EXPECT_EQ(session_->counters().locks.combined, combined + kWriters - 1);
}

TEST_F(CostTest, SplitTakesAtMostFourRoundTripsAndLeavesNothingStale) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(5'000));
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  size_t splits = 0;
  for (size_t i = 0; i < Scaled(5'000); ++i) {
    const std::string key = EightBytes(random_());
    const uint32_t levels = store_->Stat().value().levels;
    const WireCounts cost = CostOf(OperationClass::kInsertSplit,
                                   [&] { ASSERT_TRUE(session_->Insert(key, "12345678")); });
    keys_.push_back(key);
    if (cost.operations == 0) continue;
    ++splits;
    if (cost.sends != 0 || cost.writes > 3 || store_->Stat().value().levels != levels) continue;
    // CAS + READ; READ leaf; WRITEs + unlock, CAS + READ parent; WRITE + unlock.
    ASSERT_LE(cost.round_trips, 4u);
    ASSERT_EQ(cost.cas, 4u);
    ASSERT_EQ(cost.writes, 3u);
    ASSERT_EQ(cost.bytes_written, 3 * kLeafBytes);
  }
  EXPECT_GE(splits, Scaled(50));
  for (const std::string& key : keys_) ASSERT_TRUE(session_->Get(key));
  EXPECT_EQ(session_->counters().cache.stale, 0u);
}

TEST_F(CostTest, ScanOfAHundredTakesAtMostTwoRoundTrips) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(50'000));
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  std::sort(keys_.begin(), keys_.end());
  uint64_t round_trips = 0;
  const size_t scans = Scaled(200);
  for (size_t i = 0; i < scans; ++i) {
    ScanOptions options;
    const size_t from = random_() % (keys_.size() - 100);
    options.from = keys_[from];
    options.limit = 100;
    options.reverse = false;
    const WireCounts cost = CostOf(OperationClass::kScan, [&] {
      const std::unique_ptr<ScanCursor> cursor = session_->Scan(options);
      for (size_t k = 0; k < 100; ++k) {
        ASSERT_TRUE(cursor->Next());
        ASSERT_EQ(cursor->key(), keys_[from + k]);
      }
      ASSERT_FALSE(cursor->Next());
    });
    ASSERT_EQ(cost.operations, 1u);
    ASSERT_LE(cost.round_trips, 2u);
    round_trips += cost.round_trips;
  }
  EXPECT_LE(round_trips, scans * 11 / 10);
}

TEST_F(CostTest, RandomInsertsFillLeavesToAThirdMoreThanHalf) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(100'000));
  const Result<CheckReport> report = store_->Check({});
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report.value().problem_count, 0u);
  EXPECT_GE(report.value().keys_per_leaf(), 33.0);
}

TEST_F(CostTest, AscendingInsertsFillLeaves) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  for (uint64_t i = 0; i < 100'000; ++i) {
    const Status status = session_->Insert(EightBytes(i), "12345678");
    ASSERT_TRUE(status) << i << ": " << status.error().ToString();
  }
  const Result<CheckReport> report = store_->Check({});
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report.value().problem_count, 0u);
  EXPECT_GE(report.value().keys_per_leaf(), 45.0);
}

TEST_F(CostTest, AscendingInsertsInFlightTogetherFillLeavesToo) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  std::vector<KeyValue> pairs;
  for (uint64_t i = 0; i < 50'000; ++i) pairs.push_back({EightBytes(i), "12345678"});
  for (const Status& status : session_->MultiPut(pairs)) ASSERT_TRUE(status);
  const Result<CheckReport> report = store_->Check({});
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report.value().problem_count, 0u);
  EXPECT_GE(report.value().keys_per_leaf(), 45.0);
}

TEST_F(CostTest, TheDefaultStoreTakesEightByteKeysAsWell) {
  ASSERT_NO_FATAL_FAILURE(Open(StoreParameters{}));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(100'000));
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  const Result<CheckReport> report = store_->Check({});
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_GE(report.value().keys_per_leaf(), 33.0);
  const WireCounts cost = CostOf(OperationClass::kRead, [&] {
    for (const std::string& key : keys_) ASSERT_TRUE(session_->Get(key));
  });
  EXPECT_LE(static_cast<double>(cost.bytes_read), 190.0 * static_cast<double>(cost.operations));
  EXPECT_EQ(cost.round_trips, cost.operations);
}

TEST_F(CostTest, WordsTakeAtMostFortyFiveBytesOfLeaves) {
  std::ifstream words("/usr/share/dict/american-english");
  if (!words) GTEST_SKIP() << "no word list: install the Debian package wamerican";
  ASSERT_NO_FATAL_FAILURE(Open(StoreParameters{}));
  std::vector<std::string> lines;
  for (std::string line; std::getline(words, line);) {
    if (line.size() <= 32) lines.push_back(line);
  }
  std::shuffle(lines.begin(), lines.end(), random_);
  for (const std::string& line : lines) ASSERT_TRUE(session_->Put(line, ""));
  const Result<CheckReport> report = store_->Check({});
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report.value().problem_count, 0u);
  EXPECT_LE(report.value().leaf_bytes_per_key, 45.0);
  RecordProperty("leaf_bytes_per_key", std::to_string(report.value().leaf_bytes_per_key));
}

}  // namespace
}  // namespace gossamer
