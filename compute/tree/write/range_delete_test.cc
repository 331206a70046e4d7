// Session::DeleteRange: what it deletes, what it gives back, and what it costs.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "compute/store/testing/protocol_fixture.h"

namespace gossamer {
namespace {

class RangeDeleteTest : public ProtocolTest {
 protected:
  // Every third key gets a value in a block.
  void LoadMixed(uint64_t count) {
    ASSERT_NO_FATAL_FAILURE(Load(count));
    for (uint64_t i = 0; i < count; i += 3) {
      model_[NumberKey(10 * i)] = std::string(100 + i % 50, 'x');
      ASSERT_TRUE(session_->Put(NumberKey(10 * i), model_[NumberKey(10 * i)]));
    }
  }
  // The same of the store and of the model.
  void Delete(const KeyRange& range) {
    const RangeDeletion done = session_->DeleteRange(range, {});
    ASSERT_TRUE(done.status) << done.status.error().ToString();
    const uint64_t deleted = std::erase_if(model_, [&](const auto& pair) {
      const std::string& key = pair.first;
      return key >= range.from && (!range.to || key < *range.to) && key.starts_with(range.prefix);
    });
    EXPECT_EQ(done.deleted, deleted);
  }
};

TEST_F(RangeDeleteTest, DeletesTheKeysOfTheRangeAndNoOthers) {
  constexpr uint64_t kKeys = 3000;
  for (const StoreParameters& parameters :
       {StoreParameters{256, 8, 8}, StoreParameters{1024, 8, 8}}) {
    model_.clear();
    ASSERT_NO_FATAL_FAILURE(Open(parameters, 2));
    ASSERT_NO_FATAL_FAILURE(LoadMixed(kKeys));
    const auto number = [&] { return random_() % (10 * kKeys); };
    for (int i = 0; i < 30; ++i) {
      const uint64_t first = number();
      const uint64_t end = i % 2 == 0 ? first + random_() % 600 : number();
      ASSERT_NO_FATAL_FAILURE(Delete({NumberKey(first), NumberKey(end), ""}));
    }
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
    // All keys whose number, big-endian, begins alike.
    ASSERT_NO_FATAL_FAILURE(Delete({"", std::nullopt, NumberKey(0x1700).substr(0, 7)}));
    ASSERT_NO_FATAL_FAILURE(
        Delete({NumberKey(0x1810), NumberKey(0x1904), NumberKey(0x1800).substr(0, 7)}));
    ASSERT_NO_FATAL_FAILURE(Delete({"a", "a", ""}));
    ASSERT_NO_FATAL_FAILURE(Delete({"b", "a", ""}));
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
    ExpectCleanCheck();
    ASSERT_NO_FATAL_FAILURE(Delete({}));
    EXPECT_TRUE(model_.empty());
    const CheckReport empty = cluster_->Check();
    EXPECT_EQ(empty.problems, std::vector<std::string>{});
    EXPECT_EQ(empty.leaves, 1u);
    EXPECT_EQ(empty.internal_nodes, 0u);
    EXPECT_EQ(session_->DeletePrefix("").deleted, 0u);
  }
}

// Leaves that are nearly full do not keep an empty one between them. (Full ones may: together with
// the empty one they have a larger range, perhaps with a shorter prefix.)
TEST_F(RangeDeleteTest, GivesBackEachLeafThatItEmpties) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  std::vector<std::string> keys;
  std::vector<KeyValueView> pairs;
  for (uint64_t i = 0; i < 4000; ++i) keys.push_back(NumberKey(i));
  for (const std::string& key : keys) {
    pairs.push_back({key, key});
    model_[key] = key;
  }
  ASSERT_TRUE(session_->LoadSorted(pairs, 0.85).status);
  const uint64_t leaves = cluster_->Check().leaves;
  const InternalNode parent = client_->Internal(LeftmostAt(1));
  uint64_t emptied = 0;
  for (size_t i = 4; i + 1 < parent.children.size() && i < 20; i += 4) {
    ASSERT_NO_FATAL_FAILURE(Delete({std::string(parent.children[i].separator.view()),
                                    std::string(parent.children[i + 1].separator.view()), ""}));
    ++emptied;
  }
  ASSERT_GE(emptied, 3u);
  EXPECT_EQ(cluster_->Check().leaves, leaves - emptied);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

TEST_F(RangeDeleteTest, CostsTwoRoundTripsALeafAtMostAndReadsNoValues) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(2000, 100));
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  const uint64_t leaves = cluster_->Check().leaves;
  const WireCounts scan = session_->counters().of(OperationClass::kScan);
  const WireCounts deletes = session_->counters().of(OperationClass::kDelete);
  ASSERT_NO_FATAL_FAILURE(Delete({}));
  const WireCounts scanned = Since(scan, session_->counters().of(OperationClass::kScan));
  const WireCounts deleted = Since(deletes, session_->counters().of(OperationClass::kDelete));
  EXPECT_EQ(scanned.operations, 1u);
  EXPECT_LE(scanned.round_trips, 4 + leaves / 16);
  EXPECT_LE(scanned.bytes_read, (leaves + 4) * 1024);
  EXPECT_EQ(deleted.operations, 2000u);
  EXPECT_LE(deleted.round_trips, 2 * leaves);
}

TEST_F(RangeDeleteTest, AScanOfKeysAloneReadsNoValues) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(LoadMixed(500));
  for (const bool reverse : {false, true}) {
    ScanOptions options;
    options.keys_only = true;
    options.reverse = reverse;
    const WireCounts before = session_->counters().of(OperationClass::kScan);
    std::vector<std::string> keys;
    const std::unique_ptr<ScanCursor> cursor = session_->Scan(options);
    while (cursor->Next()) {
      keys.emplace_back(cursor->key());
      ASSERT_EQ(cursor->value(), "");
    }
    ASSERT_TRUE(cursor->status());
    if (reverse) std::ranges::reverse(keys);
    std::vector<std::string> expected;
    for (const auto& [key, value] : model_) expected.push_back(key);
    ASSERT_EQ(keys, expected);
    EXPECT_LE(Since(before, session_->counters().of(OperationClass::kScan)).reads,
              2 * cluster_->Check().leaves);
  }
}

TEST_F(RangeDeleteTest, EndsWhenItIsTold) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(20'000));
  uint64_t told = 0;
  const RangeDeletion done = session_->DeleteRange({}, [&](uint64_t deleted) {
    told = deleted;
    return false;
  });
  EXPECT_TRUE(done.status);
  EXPECT_EQ(done.deleted, told);
  EXPECT_GT(told, 0u);
  EXPECT_LT(told, 20'000u);
  // The least keys.
  model_.erase(model_.begin(), std::next(model_.begin(), static_cast<ptrdiff_t>(told)));
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
}

// Awaited with a range that has no name: see the constructors of KeyRange.
TEST_F(RangeDeleteTest, IsAwaited) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(100));
  uint64_t deleted = 0;
  session_->Spawn([](Session& session, uint64_t& count) -> Task<void> {
    count = (co_await session.AsyncDeleteRange({"", std::nullopt}, {})).deleted;
  }(*session_, deleted));
  session_->WaitAll();
  EXPECT_EQ(deleted, 100u);
}

// The locks of the root and of the parents of leaves are another's, who stands still.
TEST_F(RangeDeleteTest, WaitsForNoLockOfAMerge) {
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(3000));
  const Lease other = TestClient(*cluster_).LeaseWith(ServerId{0});
  const RemotePtr word(ServerId{0}, kRootWordOffset, 0);
  const RemotePtr parent = LeftmostAt(1);
  for (const RemotePtr node : {word, parent}) {
    ASSERT_EQ(
        client_->CompareSwap(ServerId{0}, client_->LockSlot(node), 0, LockWord(other, node).word()),
        0u);
  }
  uint64_t calls = 0;
  const RangeDeletion done = session_->DeleteRange({}, [&](uint64_t) { return ++calls != 0; });
  EXPECT_TRUE(done.status);
  EXPECT_EQ(done.deleted, 3000u);
  EXPECT_EQ(calls, 1u);
}

TEST_F(RangeDeleteTest, OthersWriteMeanwhile) {
  constexpr uint64_t kKeys = 6000;
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  const std::unique_ptr<Store> store = cluster_->OpenStore();
  ASSERT_NO_FATAL_FAILURE(Load(kKeys));
  std::atomic<bool> stops = false;
  std::thread writer([&, seed = random_()] {
    std::mt19937_64 random(seed);
    const std::unique_ptr<Session> session = store->NewSession().value();
    while (!stops) {
      const std::string key = NumberKey(10 * (random() % kKeys) + 5);
      const Status done = random() % 2 == 0 ? session->Put(key, "new") : session->Delete(key);
      EXPECT_TRUE(done || done.error().code == Code::kNotFound) << done.error().ToString();
    }
  });
  const std::string from = NumberKey(10'000);
  const std::string to = NumberKey(50'000);
  for (int i = 0; i < 8; ++i) {
    const RangeDeletion done = session_->DeleteRange({from, to, ""}, {});
    EXPECT_TRUE(done.status) << done.status.error().ToString();
  }
  stops = true;
  writer.join();
  EXPECT_TRUE(session_->DeleteRange({from, to, ""}, {}).status);
  std::erase_if(model_, [&](const auto& pair) { return pair.first >= from && pair.first < to; });
  std::map<std::string, std::string> old;
  const std::unique_ptr<ScanCursor> cursor = session_->Scan({});
  while (cursor->Next()) {
    EXPECT_FALSE(cursor->key() >= from && cursor->key() < to);
    if (cursor->value() != "new") old.emplace(cursor->key(), cursor->value());
  }
  EXPECT_TRUE(cursor->status());
  EXPECT_TRUE(old == model_);
  EXPECT_EQ(cluster_->Check().problems, std::vector<std::string>{});
}

}  // namespace
}  // namespace gossamer
