// Cost of inserts as groups fill, overflow and are emptied: two round trips, because hints say what
// else to read.
#include <array>

#include "compute/store/testing/cost_fixture.h"

namespace gossamer {
namespace {

class InsertCostTest : public CostFixture, public testing::WithParamInterface<TestFabric> {
 protected:
  InsertCostTest() : CostFixture(GetParam()) {}

  // One insert that read its home group, also the overflow group, or the whole leaf, which it may
  // have rearranged.
  static void ExpectTwoRoundTrips(const WireCounts& cost) {
    const bool whole = cost.bytes_read == kLeafBytes;
    const bool rewritten = whole && cost.bytes_written == kLeafBytes;
    ASSERT_LE(cost.reads, whole ? 1u : 2u);
    // The first key that overflows also writes the flag.
    ASSERT_LE(cost.writes, 2u);
    ASSERT_EQ(Text(cost),
              Text({.operations = 1,
                    .round_trips = 2,
                    .reads = cost.reads,
                    .writes = cost.writes,
                    .atomics = 2,
                    .bytes_read = whole ? kLeafBytes : cost.reads * kUnitBytes,
                    .bytes_written = rewritten ? kLeafBytes : cost.writes * kUnitBytes}));
  }
  WireCounts CostOfInsert(const std::string& key) {
    return CostOf(OperationClass::kInsert, [&] { EXPECT_TRUE(session_->Insert(key, "12345678")); });
  }
  WireCounts CostOfPut(const std::string& key, OperationClass kind) {
    return CostOf(kind, [&] { EXPECT_TRUE(session_->Put(key, "ABCDEFGH")); });
  }
  // The average cost of `inserts` inserts that split nothing.
  template <typename Insert>
  void ExpectAverage(size_t inserts, double bytes, Insert&& insert) {
    const WireCounts cost = CostOf(OperationClass::kInsert, [&] {
      for (size_t i = 0; i < inserts; ++i) ASSERT_NO_FATAL_FAILURE(insert(i));
    });
    ASSERT_GE(cost.operations * 100, inserts * 95);
    const auto operations = static_cast<double>(cost.operations);
    EXPECT_LE(static_cast<double>(cost.round_trips), 2.01 * operations) << Text(cost);
    EXPECT_LE(static_cast<double>(cost.bytes_read), bytes * operations) << Text(cost);
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, InsertCostTest, testing::ValuesIn(TestFabrics()), NameOfFabric);

TEST_P(InsertCostTest, ALoadTakesTwoRoundTripsForEachInsert) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  const auto insert = [&](const std::string& key) {
    ASSERT_TRUE(session_->Insert(key, "12345678"));
  };
  const auto put = [&](const std::string& key) { ASSERT_TRUE(session_->Put(key, "12345678")); };
  ExpectAverage(Scaled(50'000), 230, [&](size_t) { insert(EightBytes(random_())); });
  ExpectAverage(Scaled(50'000), 230, [&](size_t) { put(EightBytes(random_())); });
  // Above all other keys: the first of their leaves holds some of the keys above.
  ExpectAverage(Scaled(50'000), 240,
                [&](size_t i) { insert(EightBytes(~uint64_t{0} - 50'000 + i)); });
}

TEST_P(InsertCostTest, EachInsertIntoAGroupThatWasSeenTakesTwo) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(20'000));
  // What the load left behind is known to its session, and also to a session that has scanned it.
  for (const bool is_known_by_scan : {false, true}) {
    if (is_known_by_scan) {
      session_.reset();
      store_ = OpenAnother();
      session_ = std::move(store_->NewSession().value());
      ASSERT_NO_FATAL_FAILURE(WarmUp());
      ASSERT_TRUE(session_->Update(keys_[0], "abcdefgh"));  // registers
    }
    std::array<size_t, 3> reads{};
    for (size_t i = 0; i < Scaled(10'000); ++i) {
      std::string& key = keys_[random_() % keys_.size()];
      ASSERT_TRUE(session_->Delete(key));
      key = EightBytes(random_());
      const WireCounts cost = CostOfInsert(key);
      if (cost.operations == 0) continue;  // a split
      ASSERT_NO_FATAL_FAILURE(ExpectTwoRoundTrips(cost));
      ++reads[cost.bytes_read == kLeafBytes ? 0 : cost.reads];
    }
    EXPECT_GE(reads[1], Scaled(5'000));
    EXPECT_GE(reads[2], Scaled(1'000));
    EXPECT_LE(reads[0], Scaled(1'000));
  }
}

TEST_P(InsertCostTest, AGroupFilledByOthersIsFoundOutOnce) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(20'000));
  const std::unique_ptr<Store> others = OpenAnother();
  const std::unique_ptr<Session> other = std::move(others->NewSession().value());
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  for (size_t i = 0; i < Scaled(5'000); ++i) {
    ASSERT_TRUE(other->Insert(EightBytes(random_()), "12345678"));
  }
  size_t found_out = 0;
  for (size_t i = 0; i < Scaled(5'000); ++i) {
    const std::string key = EightBytes(random_());
    const CacheCounts before = session_->counters().cache;
    const WireCounts cost = CostOfInsert(key);
    if (cost.operations == 0 || cost.round_trips == 2) continue;
    const CacheCounts now = session_->counters().cache;
    if (now.stale != before.stale || now.misses != before.misses) continue;
    // Reads the home group, then the leaf.
    ASSERT_EQ(cost.round_trips, 3u);
    ASSERT_EQ(cost.bytes_read, kUnitBytes + kLeafBytes);
    ++found_out;
    ASSERT_TRUE(session_->Delete(key));
    const WireCounts again = CostOfInsert(key);
    if (again.operations == 0) continue;
    ASSERT_NO_FATAL_FAILURE(ExpectTwoRoundTrips(again));
  }
  EXPECT_GE(found_out, Scaled(100));
}

TEST_P(InsertCostTest, PutsOfKeysThatAreThereReadNoMoreThanUpdates) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(20'000));
  constexpr size_t kUntilItIsNoticed = 32;
  for (size_t i = 0; i < kUntilItIsNoticed; ++i) ASSERT_TRUE(session_->Put(keys_[i], "abcdefgh"));
  for (size_t i = 0; i < Scaled(2'000); ++i) {
    const std::string& key = keys_[random_() % keys_.size()];
    const WireCounts update = CostOfUpdate(*session_, key);
    ASSERT_EQ(update.round_trips, 2u);
    ASSERT_EQ(Text(CostOfPut(key, OperationClass::kUpdate)), Text(update));
  }
  // After one new key, all keys are assumed new for a while: that costs bytes, but no round trip.
  ASSERT_TRUE(session_->Put(EightBytes(random_()), "12345678"));
  const WireCounts costs = CostOf(OperationClass::kUpdate, [&] {
    for (size_t i = 0; i < kUntilItIsNoticed; ++i) ASSERT_TRUE(session_->Put(keys_[i], "12345678"));
  });
  EXPECT_EQ(costs.round_trips, 2 * costs.operations);
}

TEST_P(InsertCostTest, WhatIsNotThereIsNotLookedForInMoreRoundTripsThanItTakes) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(20'000));
  for (size_t i = 0; i < Scaled(2'000); ++i) {
    const std::string key = EightBytes(random_());
    const WireCounts get = CostOf(OperationClass::kRead, [&] { ASSERT_FALSE(session_->Get(key)); });
    // The overflow group of a flagged group is read along if the filter asks for it, otherwise
    // afterwards.
    ASSERT_LE(get.reads, 2u);
    ASSERT_LE(get.round_trips, get.reads);
    const WireCounts erase =
        CostOf(OperationClass::kDelete, [&] { ASSERT_FALSE(session_->Delete(key)); });
    ASSERT_EQ(Text(erase), Text({.operations = 1,
                                 .round_trips = get.round_trips + 1,
                                 .reads = get.reads,
                                 .atomics = 2,
                                 .bytes_read = get.bytes_read}));
  }
}

}  // namespace
}  // namespace gossamer
