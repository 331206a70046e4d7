// Cost of splits, and of operations that come to a split leaf: counted exactly, on every fabric.
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "compute/store/testing/cost_fixture.h"
#include "proto/leaf.h"

namespace gossamer {
namespace {

constexpr uint64_t kMostServers = 2;

class SplitCostTest : public CostFixture, public testing::WithParamInterface<TestFabric> {
 protected:
  SplitCostTest() : CostFixture(GetParam()) {}

  // Inserts `count` random keys through `session`. `concerns` accepts the path of each. Counts
  // the splits of a leaf alone: with the sibling on another server than the leaf (1), the parent on
  // another than the sibling (2), both (3), or neither (0), and splits that did not know the leaf
  // was full (4).
  void InsertAndExpectSplits(
      Session& session, size_t count, std::array<size_t, 5>& splits,
      const std::function<bool(const Path&)>& concerns = [](const Path&) { return true; });

  // Makes `session_` split the leaf of `key` by keys just below it, until `key` is in another leaf.
  // Returns false if `key` cannot move, because it is the first of its leaf.
  bool MovesToAnotherLeaf(const std::string& key) {
    const RemotePtr leaf = PathTo(key).leaf;
    uint64_t number = 0;
    for (const char byte : key) number = number << 8 | static_cast<uint8_t>(byte);
    while (PathTo(key).leaf == leaf) {
      const std::string below = EightBytes(--number);
      if (PathTo(below).leaf != leaf) return false;
      const Status status = session_->Put(below, "12345678");
      EXPECT_TRUE(status) << status.error().ToString();
    }
    return true;
  }
  // Calls visit(key, parent_split) for keys that moved to the home group of another leaf unnoticed
  // by `other`, whose cache was warm. `parent_split`: whether they moved to another parent as well.
  template <typename Visit>
  void ForEachMovedKey(Session& other, Visit&& visit);
};

INSTANTIATE_TEST_SUITE_P(Fabrics, SplitCostTest, testing::ValuesIn(TestFabrics()), NameOfFabric);

void SplitCostTest::InsertAndExpectSplits(Session& session, size_t count,
                                          std::array<size_t, 5>& splits,
                                          const std::function<bool(const Path&)>& concerns) {
  uint64_t registrations = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::string key = EightBytes(random_());
    const Path path = PathTo(key);
    if (!concerns(path)) continue;
    const uint64_t stale = session.counters().cache.stale;
    const WireCounts cost = CostOf(session, OperationClass::kInsertSplit,
                                   [&] { ASSERT_TRUE(session.Insert(key, "12345678")); });
    keys_.push_back(key);
    if (cost.operations == 0 || session.counters().cache.stale != stale) continue;
    // A parent that splits, or a new root, costs more.
    if (cost.writes != 3 || path.level == 0) continue;
    const RemotePtr sibling = SiblingOf(path);
    const bool sibling_elsewhere = sibling.server() != path.leaf.server();
    const bool parent_elsewhere = sibling.server() != path.parent.server();
    ++splits[(sibling_elsewhere ? 1 : 0) + (parent_elsewhere ? 2 : 0)];
    // CAS + READ leaf; WRITEs + unlock, CAS + READ parent; WRITE + unlock.
    uint64_t round_trips = 3;
    // A sibling on another server is written before its leaf points to it (rule W1).
    if (sibling_elsewhere) ++round_trips;
    // Two locks of one local queue are taken one after the other (rule W5).
    const bool one_by_one = ShareTurns(path.leaf, path.parent);
    if (one_by_one) ++round_trips;
    // The sibling is read after the parent's CAS; between queue pairs only a round trip gives that
    // order. It is not read if the CAS came before the sibling could be known (rule W4).
    const bool reads_sibling = !sibling_elsewhere || one_by_one;
    // And its lock word, which says whether it is being merged. Not if the parent's lock was asked
    // for along with the commit.
    const uint64_t fetch_adds = reads_sibling && (parent_elsewhere || one_by_one) ? 1 : 0;
    if (parent_elsewhere && reads_sibling) ++round_trips;
    const uint64_t units = cost.reads - (reads_sibling ? 3 : 2);
    if (units != 0) {
      // CAS + READ; READ leaf.
      ++round_trips;
      ++splits[4];
    }
    ASSERT_LE(units, 2u);
    // Sends: now and then a request for memory, and a registration, one for each server.
    if (cost.sends > 1) registrations += cost.sends - 1;
    ASSERT_LE(registrations, kMostServers);
    ASSERT_EQ(Text(cost), Text({.operations = 1,
                                .round_trips = round_trips + cost.sends,
                                .reads = cost.reads,
                                .writes = 3,
                                .atomics = 4 + fetch_adds,
                                .sends = cost.sends,
                                .bytes_read = units * kUnitBytes + 2 * kLeafBytes +
                                              (reads_sibling ? kTrailerBytes : 0),
                                .bytes_written = 3 * kLeafBytes}));
    ASSERT_LE(cost.round_trips, 5 + cost.sends + (one_by_one ? 2 : 0));
  }
}

template <typename Visit>
void SplitCostTest::ForEachMovedKey(Session& other, Visit&& visit) {
  size_t moved = 0;
  for (size_t i = 0; i < Scaled(100); ++i) {
    const std::string key = keys_[random_() % keys_.size()];
    ASSERT_NO_FATAL_FAILURE(WarmUp(other));
    ASSERT_EQ(CostOfGet(other, key).round_trips, 1u);
    const RemotePtr parent = PathTo(key).parent;
    if (!MovesToAnotherLeaf(key)) continue;
    if (CostOfGet(*session_, key).reads != 1) continue;
    const uint64_t stale = other.counters().cache.stale;
    ASSERT_NO_FATAL_FAILURE(visit(key, PathTo(key).parent != parent));
    ASSERT_EQ(other.counters().cache.stale, stale + 1);
    ++moved;
  }
  EXPECT_GE(moved, Scaled(50));
}

TEST_P(SplitCostTest, SplitTakesThreeRoundTripsAndLeavesNothingStale) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(5'000));
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  std::array<size_t, 5> splits{};
  ASSERT_NO_FATAL_FAILURE(InsertAndExpectSplits(*session_, Scaled(5'000), splits));
  EXPECT_GE(splits[0], Scaled(50));
  EXPECT_EQ(splits[4], 0u);
  for (const std::string& key : keys_) ASSERT_TRUE(session_->Get(key));
  EXPECT_EQ(session_->counters().cache.stale, 0u);
}

TEST_P(SplitCostTest, SplitOfALeafThatOthersFilledTakesFour) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(40'000));
  const std::unique_ptr<Store> others = OpenAnother();
  const std::unique_ptr<Session> other = std::move(others->NewSession().value());
  ASSERT_NO_FATAL_FAILURE(WarmUp(*other));
  std::set<RemotePtr> parents;
  for (const std::string& key : keys_) parents.insert(PathTo(key).parent);
  ASSERT_NO_FATAL_FAILURE(LoadRandom(10'000));
  std::array<size_t, 5> splits{};
  // A leaf under a parent that has split since would add the cost of a stale parent.
  ASSERT_NO_FATAL_FAILURE(
      InsertAndExpectSplits(*other, Scaled(20'000), splits,
                            [&](const Path& path) { return parents.contains(path.parent); }));
  EXPECT_GE(splits[4], Scaled(9));
}

TEST_P(SplitCostTest, SplitOverTwoServersTakesOneMoreForEachHop) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore, 2));
  // The first leaf, and at first its halves, have no parent to keep a hint beside.
  ASSERT_NO_FATAL_FAILURE(LoadRandom(5'000));
  std::array<size_t, 5> splits{};
  ASSERT_NO_FATAL_FAILURE(InsertAndExpectSplits(*session_, Scaled(20'000), splits));
  // A compute server that splits only leaves of one server puts siblings on the other after a
  // while, to balance its memory. Parents are on server 0.
  for (const auto& [server, kind] : {std::pair{ServerId{1}, 1}, {ServerId{0}, 3}}) {
    session_.reset();
    store_ = OpenAnother();
    session_ = std::move(store_->NewSession().value());
    ASSERT_NO_FATAL_FAILURE(WarmUp());
    for (int times = 0; times == 0 || (times < 10 && splits[kind] == 0); ++times) {
      ASSERT_NO_FATAL_FAILURE(
          InsertAndExpectSplits(*session_, Scaled(10'000), splits,
                                [&](const Path& path) { return path.leaf.server() == server; }));
    }
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_GT(splits[i], 0u) << testing::PrintToString(splits);
  EXPECT_EQ(splits[4], 0u);
  for (const std::string& key : keys_) ASSERT_TRUE(session_->Get(key));
  EXPECT_EQ(session_->counters().cache.stale, 0u);
}

TEST_P(SplitCostTest, AGetThroughAStaleEntryTakesTwoMoreOnce) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(10'000));
  const std::unique_ptr<Store> others = OpenAnother();
  const std::unique_ptr<Session> other = std::move(others->NewSession().value());
  ForEachMovedKey(*other, [&](const std::string& key, bool parent_split) {
    // READ group; READ group and trailer; READ group of the sibling.
    const WireCounts stale = CostOfGet(*other, key);
    const uint64_t units = stale.reads - 1;  // perhaps with the overflow group in the first
    ASSERT_GE(units, 3u);
    ASSERT_LE(units, 4u);
    ASSERT_EQ(Text(stale), Text({.operations = 1,
                                 .round_trips = 3,
                                 .reads = units + 1,
                                 .bytes_read = units * kUnitBytes + kTrailerBytes}));
    // One level is repaired at a time: behind a stale parent is a stale grandparent.
    if (parent_split) CostOfGet(*other, key);
    ASSERT_EQ(Text(CostOfGet(*other, key)),
              Text({.operations = 1, .round_trips = 1, .reads = 1, .bytes_read = kUnitBytes}));
  });
}

TEST_P(SplitCostTest, AWriteThroughAStaleEntryTakesTwoMoreOnce) {
  ASSERT_NO_FATAL_FAILURE(Open(kEightByteStore));
  ASSERT_NO_FATAL_FAILURE(LoadRandom(10'000));
  const std::unique_ptr<Store> others = OpenAnother();
  const std::unique_ptr<Session> other = std::move(others->NewSession().value());
  ASSERT_TRUE(other->Update(keys_[0], "abcdefgh"));  // registers
  ForEachMovedKey(*other, [&](const std::string& key, bool parent_split) {
    // CAS + READ group; READ trailer + unlock; CAS + READ group; WRITE + unlock.
    const WireCounts stale = CostOfUpdate(*other, key);
    const uint64_t units = stale.reads - 1;
    ASSERT_GE(units, 2u);
    ASSERT_LE(units, 3u);
    ASSERT_EQ(Text(stale), Text({.operations = 1,
                                 .round_trips = 4,
                                 .reads = units + 1,
                                 .writes = 1,
                                 .atomics = 4,
                                 .bytes_read = units * kUnitBytes + kTrailerBytes,
                                 .bytes_written = kUnitBytes}));
    if (parent_split) CostOfUpdate(*other, key);
    ASSERT_EQ(Text(CostOfUpdate(*other, key)), Text({.operations = 1,
                                                     .round_trips = 2,
                                                     .reads = 1,
                                                     .writes = 1,
                                                     .atomics = 2,
                                                     .bytes_read = kUnitBytes,
                                                     .bytes_written = kUnitBytes}));
  });
}

}  // namespace
}  // namespace gossamer
