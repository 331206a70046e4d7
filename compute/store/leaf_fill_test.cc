// Keys per leaf and bytes per key. The same on every fabric.
#include <algorithm>
#include <fstream>

#include "compute/store/testing/cost_fixture.h"

namespace gossamer {
namespace {

class LeafFillTest : public CostFixture {
 protected:
  LeafFillTest() : CostFixture(TestFabric::kShm) {}
};

TEST_F(LeafFillTest, RandomInsertsFillLeavesToAThirdMoreThanHalf) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(100'000));
  const Result<CheckReport> report = store_->Check({});
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report.value().problem_count, 0u);
  EXPECT_GE(report.value().keys_per_leaf(), 33.0);
}

TEST_F(LeafFillTest, AscendingInsertsFillLeaves) {
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

TEST_F(LeafFillTest, AscendingInsertsInFlightTogetherFillLeavesToo) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  std::vector<KeyValue> pairs;
  for (uint64_t i = 0; i < 50'000; ++i) pairs.push_back({EightBytes(i), "12345678"});
  for (const Status& status : session_->MultiPut(pairs)) ASSERT_TRUE(status);
  const Result<CheckReport> report = store_->Check({});
  ASSERT_TRUE(report) << report.error().ToString();
  EXPECT_EQ(report.value().problem_count, 0u);
  EXPECT_GE(report.value().keys_per_leaf(), 45.0);
}

TEST_F(LeafFillTest, TheDefaultStoreTakesEightByteKeysAsWell) {
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

TEST_F(LeafFillTest, WordsTakeAtMostFortyFiveBytesOfLeaves) {
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
