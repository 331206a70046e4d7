// Keys per leaf and bytes per key. The same on every fabric.
#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <numeric>

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

// The same records in other orders, with keys of which neighbours share nearly all.
class ArrivalTest : public LeafFillTest {
 protected:
  static constexpr uint64_t kRecords = 50'000;

  enum class Keys : uint8_t { kLog, kSeries, kLong, kPaths };
  enum class Puts : uint8_t { kSingle, kBatches };
  struct Case {
    std::string name;
    Keys keys;
    size_t value_bytes;
  };

  static std::string KeyOf(Keys keys, uint64_t number) {
    constexpr uint64_t kSensors = 20;
    constexpr uint64_t kOfEach = kRecords / kSensors;
    switch (keys) {
      case Keys::kLog: return fmt::format("log:{:012}", number);
      case Keys::kSeries:
        return fmt::format("sensor:{:02}:{:013}", number / kOfEach,
                           1'700'000'000'000 + number % kOfEach * 1000);
      case Keys::kLong: return std::string(100, 'l') + fmt::format("{:012}", number);
      case Keys::kPaths:
        return fmt::format(
            "/srv/projects/customer-{:02}/packages/library-of-{:04}/source/{}{:05}.cc",
            number / 10'000, number / 40 * 7, number % 40 < 13 ? "module_" : "test_", number);
    }
    return {};
  }
  // What a store takes for records that come in this order.
  uint64_t BytesOf(const Case& shape, const std::vector<uint64_t>& order, Puts puts) {
    Reopen();
    std::vector<KeyValue> pairs;
    const std::string value(shape.value_bytes, 'v');
    const auto put = [&] {
      for (const Status& status : session_->MultiPut(pairs)) EXPECT_TRUE(status);
      pairs.clear();
    };
    for (const uint64_t number : order) {
      if (puts == Puts::kSingle) {
        EXPECT_TRUE(session_->Put(KeyOf(shape.keys, number), value));
        continue;
      }
      pairs.push_back({KeyOf(shape.keys, number), value});
      if (pairs.size() == 4096) put();
    }
    put();
    return Used();
  }
  void Reopen() {
    session_.reset();
    store_.reset();
    Open(StoreParameters{});
  }
  uint64_t BytesOfSortedLoad(const Case& shape) {
    Reopen();
    const std::string value(shape.value_bytes, 'v');
    std::vector<std::string> keys;
    std::vector<KeyValueView> pairs;
    for (uint64_t i = 0; i < kRecords; ++i) keys.push_back(KeyOf(shape.keys, i));
    for (const std::string& key : keys) pairs.push_back({key, value});
    for (size_t at = 0; at < pairs.size(); at += 8192) {
      const auto some =
          std::span(pairs).subspan(at).first(std::min<size_t>(8192, pairs.size() - at));
      EXPECT_TRUE(session_->LoadSorted(some, 1).status);
    }
    return Used();
  }
  // Of the tree.
  uint64_t Used() {
    const Result<CheckReport> report = store_->Check({});
    if (!report) {
      ADD_FAILURE() << report.error().ToString();
      return 0;
    }
    EXPECT_EQ(report.value().problem_count, 0u);
    EXPECT_EQ(report.value().keys, kRecords);
    uint64_t bytes = 0;
    for (const auto& [server, use] : report.value().memory) bytes += use.live_bytes;
    return bytes;
  }
};

TEST_F(ArrivalTest, AnyOrderTakesAtMostThreeTenthsMoreThanASortedLoad) {
  std::vector<uint64_t> ascending(kRecords);
  std::iota(ascending.begin(), ascending.end(), 0);
  const std::vector<uint64_t> descending(ascending.rbegin(), ascending.rend());
  const auto interleaved = [](bool is_ascending) {
    constexpr uint64_t kSeries = 20;
    std::vector<uint64_t> order;
    for (uint64_t i = 0; i < kRecords; ++i) {
      const uint64_t at = is_ascending ? i / kSeries : kRecords / kSeries - 1 - i / kSeries;
      order.push_back(i % kSeries * (kRecords / kSeries) + at);
    }
    return order;
  };
  const std::vector<std::pair<std::string, std::vector<uint64_t>>> orders = {
      {"ascending", ascending},
      {"descending", descending},
      {"interleaved, ascending", interleaved(true)},
      {"interleaved, descending", interleaved(false)}};
  for (const Case& shape : {Case{"log keys", Keys::kLog, 0}, Case{"log keys + 8", Keys::kLog, 8},
                            Case{"series", Keys::kSeries, 8}, Case{"long", Keys::kLong, 8},
                            Case{"paths", Keys::kPaths, 8}}) {
    const uint64_t sorted = BytesOfSortedLoad(shape);
    std::cout << shape.name << ", sorted: " << sorted << " B\n";
    for (const auto& [name, order] : orders) {
      for (const Puts puts : {Puts::kSingle, Puts::kBatches}) {
        const uint64_t bytes = BytesOf(shape, order, puts);
        const double ratio = static_cast<double>(bytes) / static_cast<double>(sorted);
        const std::string what =
            shape.name + ", " + name + (puts == Puts::kSingle ? "" : ", batches");
        std::cout << what << ": " << bytes << " B, " << ratio << "\n";
        EXPECT_LE(ratio, 1.3) << what;
      }
    }
  }
}

}  // namespace
}  // namespace gossamer
