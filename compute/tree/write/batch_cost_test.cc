// What MultiPut costs.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "common/testing/seed.h"
#include "compute/store/testing/cost_fixture.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

class BatchCostTest : public CostFixture, public testing::WithParamInterface<TestFabric> {
 protected:
  BatchCostTest() : CostFixture(GetParam()) {}

  WireCounts CostOfPuts(const std::vector<KeyValueView>& pairs) {
    const Counters before = session_->counters();
    std::vector<Status> results(pairs.size(), Ok());
    session_->MultiPut(pairs, results);
    for (const Status& result : results) EXPECT_TRUE(result) << result.error().ToString();
    WireCounts total;
    for (const WireCounts& one : Since(before, session_->counters()).wire) total += one;
    return total;
  }
  // Of keys_, which are sorted, those from number `first` on that are in its leaf.
  std::vector<std::string> KeysOfLeafFrom(size_t first) {
    const RemotePtr leaf = PathTo(keys_[first]).leaf;
    std::vector<std::string> keys;
    for (size_t at = first; at < keys_.size() && PathTo(keys_[at]).leaf == leaf; ++at) {
      keys.push_back(keys_[at]);
    }
    return keys;
  }
  // New keys just above an existing one: all in its leaf.
  std::vector<std::string> KeysJustAboveOne(uint64_t count) {
    const std::string& key = keys_[random_() % keys_.size()];
    uint64_t number = 0;
    for (const char byte : key) number = number << 8 | static_cast<uint8_t>(byte);
    std::vector<std::string> keys;
    for (uint64_t j = 1; j <= count; ++j) keys.push_back(EightBytes(number + j));
    return keys;
  }
  // What is written to that many blocks of values of 100 bytes, by so many WRITEs: where one is for
  // several, it writes what is unused between them, too.
  static uint64_t BytesOfBlocks(uint64_t blocks, uint64_t writes) {
    return blocks * BlockReadBytes(100) +
           (blocks - writes) * (BlockBytes(100) - BlockReadBytes(100));
  }
  // Of 64 leaves.
  void ExpectTwoRoundTrips();
  // The same with values in blocks: 1 RT more if `may_be_elsewhere`, on other servers than their
  // leaves.
  void ExpectFewRoundTripsWithBlocks(bool may_be_elsewhere);
};

INSTANTIATE_TEST_SUITE_P(Fabrics, BatchCostTest, testing::ValuesIn(TestFabrics()), NameOfFabric);

TEST_P(BatchCostTest, WritesOfOneLeafTakeTwoRoundTripsTogether) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  std::sort(keys_.begin(), keys_.end());
  size_t alone = 0;
  for (size_t i = 0; i + 64 < keys_.size() && alone < 20; i += 997) {
    std::vector<std::string> keys = KeysOfLeafFrom(i);
    if (keys.size() < 10) continue;
    while (keys.size() < 64) keys.push_back(keys[random_() % keys.size()]);
    std::shuffle(keys.begin(), keys.end(), random_);
    const WireCounts cost = CostOfPuts(WithValue(keys, "abcdefgh"));
    EXPECT_EQ(Text(cost), Text({.operations = 64,
                                .round_trips = 2,
                                .reads = 1,
                                .writes = 1,
                                .atomics = 2,
                                .bytes_read = kLeafBytes,
                                .bytes_written = kLeafBytes}));
    ++alone;
  }
  EXPECT_GE(alone, 5u);
}

TEST_P(BatchCostTest, NewKeysOfOneLeafTakeAtMostATenthOfARoundTripEach) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  size_t splits = 0;
  for (size_t i = 0; i < 50; ++i) {
    // They split their leaf in three.
    std::vector<std::string> keys = KeysJustAboveOne(64);
    std::shuffle(keys.begin(), keys.end(), random_);
    const WireCounts cost = CostOfPuts(WithValue(keys, "abcdefgh"));
    EXPECT_EQ(cost.operations, 64u);
    // A parent that splits as well, or shares its turn with the leaf, and a request for memory cost
    // more.
    if (cost.round_trips == 4) ++splits;
    EXPECT_LE(cost.round_trips, 9u + cost.sends);
  }
  EXPECT_GE(splits, 35u);
}

TEST_P(BatchCostTest, NewKeysThatMakeOneLeafMoreTakeThreeRoundTrips) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  size_t splits = 0;
  for (size_t i = 0; i < 50; ++i) {
    // With some 34 others: mostly too many for one leaf, and few enough for two.
    const std::vector<std::string> keys = KeysJustAboveOne(26);
    const WireCounts cost = CostOfPuts(WithValue(keys, "abcdefgh"));
    // As above; and the sibling may be on another server.
    if (cost.round_trips == 3) ++splits;
    EXPECT_LE(cost.round_trips, 9u + cost.sends);
  }
  EXPECT_GE(splits, 15u);
}

void BatchCostTest::ExpectTwoRoundTrips() {
  CostOfPuts(WithValue(KeysOfLeaves(64), "abcdefgh"));  // From now on puts are taken for updates.
  for (int i = 0; i < 10; ++i) {
    const WireCounts cost = CostOfPuts(WithValue(KeysOfLeaves(64), "abcdefgh"));
    // Some read the overflow group along, as single writes do.
    EXPECT_EQ(Text(cost), Text({.operations = 64,
                                .round_trips = 2,
                                .reads = cost.reads,
                                .writes = 64,
                                .atomics = 128,
                                .bytes_read = cost.reads * kUnitBytes,
                                .bytes_written = uint64_t{64} * kUnitBytes}));
    EXPECT_GE(cost.reads, 64u);
    EXPECT_LE(cost.reads, 80u);
  }
}

void BatchCostTest::ExpectFewRoundTripsWithBlocks(bool may_be_elsewhere) {
  const std::string value(100, 'v');
  CostOfPuts(WithValue(keys_, value));
  WarmUp();
  // From now on puts are taken for updates. No block was freed yet: new ones lie together.
  const WireCounts first = CostOfPuts(WithValue(KeysOfLeaves(64), value));
  if (first.sends == 0 && !may_be_elsewhere) {
    EXPECT_EQ(first.writes, 64u + 1);
  }
  size_t without = 0;
  for (int i = 0; i < 10; ++i) {
    const WireCounts cost = CostOfPuts(WithValue(KeysOfLeaves(64), value));
    if (cost.sends != 0) continue;  // it asked for more
    ++without;
    EXPECT_EQ(Text(cost),
              Text({.operations = 64,
                    .round_trips = may_be_elsewhere ? cost.round_trips : 2,
                    .reads = cost.reads,
                    .writes = cost.writes,
                    .atomics = 128,
                    .bytes_read = cost.reads * kUnitBytes,
                    .bytes_written = BytesOfBlocks(64, cost.writes - 64) + 64 * kUnitBytes}));
    EXPECT_GT(cost.writes, 64u);
    EXPECT_LE(cost.writes, 128u);
    EXPECT_LE(cost.round_trips, 3u);
    EXPECT_LE(cost.reads, 80u);
  }
  EXPECT_GE(without, 5u);
}

TEST_P(BatchCostTest, WritesOfManyLeavesTakeTwoRoundTripsTogether) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  ExpectTwoRoundTrips();
  ExpectFewRoundTripsWithBlocks(false);
}

TEST_P(BatchCostTest, AndSoDoThoseOfSeveralServers) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded(3));
  std::map<ServerId, size_t> keys_on;
  for (const std::string& key : KeysOfLeaves(64)) ++keys_on[PathTo(key).leaf.server()];
  EXPECT_EQ(keys_on.size(), 3u);
  ExpectTwoRoundTrips();
  ExpectFewRoundTripsWithBlocks(true);
}

// The blocks are written before the leaf is locked: 1 RT more.
TEST_P(BatchCostTest, WritesOfOneLeafWithBlocksTakeThreeRoundTripsTogether) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  std::sort(keys_.begin(), keys_.end());
  const std::string value(100, 'v');
  size_t alone = 0;
  for (size_t i = 0; i + 64 < keys_.size() && alone < 20; i += 997) {
    const RemotePtr leaf = PathTo(keys_[i]).leaf;
    const std::vector<std::string> keys = KeysOfLeafFrom(i);
    if (keys.size() < 10) continue;
    CostOfPuts(WithValue(keys, value));  // makes room for references, and asks for memory
    if (PathTo(keys.back()).leaf != leaf) continue;
    const WireCounts cost = CostOfPuts(WithValue(keys, value));
    if (cost.sends != 0) continue;
    EXPECT_EQ(Text(cost),
              Text({.operations = keys.size(),
                    .round_trips = 3,
                    .reads = 1,
                    .writes = cost.writes,
                    .atomics = 2,
                    .bytes_read = kLeafBytes,
                    .bytes_written = kLeafBytes + BytesOfBlocks(keys.size(), cost.writes - 1)}));
    EXPECT_GT(cost.writes, 1u);
    EXPECT_LE(cost.writes, 1 + keys.size());
    ++alone;
  }
  EXPECT_GE(alone, 3u);
}

TEST_P(BatchCostTest, WritesOfRandomKeysTakeAtMostATenthOfARoundTripEach) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  CostOfPuts(WithValue(KeysOfLeaves(64), "abcdefgh"));
  WireCounts total;
  for (int i = 0; i < 20; ++i) {
    std::vector<std::string> keys;
    while (keys.size() < 64) keys.push_back(keys_[random_() % keys_.size()]);
    total += CostOfPuts(WithValue(keys, "abcdefgh"));
  }
  EXPECT_EQ(total.operations, 20u * 64);
  EXPECT_LE(total.round_trips, total.operations / 10);
}

TEST_P(BatchCostTest, InsertsOfRandomKeysTakeAtMostATenthOfARoundTripEach) {
  ASSERT_NO_FATAL_FAILURE(OpenLoaded());
  const Counters before = session_->counters();
  WireCounts total;
  for (int i = 0; i < 200; ++i) {
    std::vector<std::string> keys;
    while (keys.size() < 64) keys.push_back(EightBytes(random_()));
    total += CostOfPuts(WithValue(keys, "abcdefgh"));
  }
  EXPECT_EQ(total.operations, 200u * 64);
  // One in 35 keys splits a leaf: two in each batch, at the same time.
  EXPECT_GE(Since(before, session_->counters()).of(OperationClass::kInsertSplit).operations, 250u);
  EXPECT_LE(total.round_trips, total.operations / 10 + total.sends);
}

}  // namespace
}  // namespace gossamer
