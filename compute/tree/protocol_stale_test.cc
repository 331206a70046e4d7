// The rules of PROTOCOL.md about stale caches and missing downlinks. Costs are counted exactly.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <chrono>
#include <iterator>
#include <thread>

#include "compute/store/testing/protocol_fixture.h"

namespace gossamer {
namespace {

class StaleTest : public ProtocolTest {
 protected:
  // Makes `session_` put keys just below that of `number`, so that it moves right when its leaf
  // splits. Returns false if it stays.
  bool MovesToAnotherLeaf(uint64_t number) {
    const RemotePtr leaf = client_->LeafOf(NumberKey(number));
    for (uint64_t i = 1; i < 10; ++i) {
      for (uint64_t j = 0; j < 10; ++j) {
        const std::string key = NumberKey(number - 10 * j - i);
        const Status status = session_->Put(key, "12345678");
        EXPECT_TRUE(status) << status.error().ToString();
        model_[key] = "12345678";
      }
      if (client_->LeafOf(NumberKey(number)) != leaf) return true;
    }
    return false;
  }
};

TEST_F(StaleTest, AGetThroughAStalePathCostsTwoRoundTripsMore) {  // W7
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(1600));
  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> stale = other.NewSession();
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*stale));
  size_t moved = 0;
  for (uint64_t at = 500; at < 15500; at += 1000) {
    if (!MovesToAnotherLeaf(at)) continue;
    ++moved;
    const WireCounts get =
        CostOf(*stale, OperationClass::kRead, [&] { ASSERT_TRUE(stale->Get(NumberKey(at))); });
    EXPECT_LE(get.round_trips, 3u + 1u);  // and one if the key has overflowed
    EXPECT_EQ(get.atomics + get.writes, 0u);
    const WireCounts again =
        CostOf(*stale, OperationClass::kRead, [&] { ASSERT_TRUE(stale->Get(NumberKey(at))); });
    EXPECT_LE(again.round_trips, 2u);
  }
  EXPECT_GE(moved, 1u);
  ExpectCleanCheck();
}

TEST_F(StaleTest, AWriteThroughAStalePathCostsTwoRoundTripsMore) {  // W7
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(1600));
  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> stale = other.NewSession();
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*stale));
  size_t moved = 0;
  for (uint64_t at = 500; at < 15500; at += 1000) {
    if (!MovesToAnotherLeaf(at)) continue;
    ++moved;
    // CAS + READ; READ trailer + unlock; CAS + READ; WRITE + unlock.
    const WireCounts update = CostOf(*stale, OperationClass::kUpdate, [&] {
      ASSERT_TRUE(stale->Update(NumberKey(at), "abcdefgh"));
    });
    model_[NumberKey(at)] = "abcdefgh";
    EXPECT_EQ(update.atomics, 4u);
    EXPECT_LE(update.round_trips, 4u + 1u);
    const WireCounts again = CostOf(*stale, OperationClass::kUpdate,
                                    [&] { ASSERT_TRUE(stale->Update(NumberKey(at), "abcdefgh")); });
    EXPECT_EQ(again.atomics, 2u);
  }
  EXPECT_GE(moved, 1u);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*stale));
  ExpectCleanCheck();
}

// A session that saw the empty store, and nothing while others filled it.
TEST_F(StaleTest, AStaleRootCostsADescentNotAWalk) {  // R7
  for (const bool reverse : {false, true}) {
    model_.clear();
    ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
    TestClient other(*cluster_);
    const std::unique_ptr<OpenSession> stale[] = {other.NewSession()};
    TestClient third(*cluster_);
    const std::unique_ptr<OpenSession> writer = third.NewSession();
    TestClient fourth(*cluster_);
    const std::unique_ptr<OpenSession> scanner = fourth.NewSession();
    for (Session* session :
         {static_cast<Session*>(stale[0].get()), static_cast<Session*>(writer.get()),
          static_cast<Session*>(scanner.get())}) {
      ASSERT_EQ(session->Get(NumberKey(5)).error().code, Code::kNotFound);
    }
    ASSERT_NO_FATAL_FAILURE(Load(6000));
    const uint32_t levels = client_->Root().level();
    ASSERT_GE(levels, 3u);
    const WireCounts get = CostOf(*stale[0], OperationClass::kRead,
                                  [&] { ASSERT_TRUE(stale[0]->Get(NumberKey(10 * 2500))); });
    EXPECT_LE(get.round_trips, 4 + levels);
    const WireCounts put = CostOf(*writer, OperationClass::kUpdate,
                                  [&] { ASSERT_TRUE(writer->Update(NumberKey(10 * 2500), "x")); });
    model_[NumberKey(10 * 2500)] = "x";
    EXPECT_LE(put.sends, 1u);  // a session registers before its first lock
    EXPECT_LE(put.round_trips, 6 + levels + put.sends);
    ScanOptions options;
    options.from = NumberKey(10 * 2500);
    options.reverse = reverse;
    options.limit = 10;
    const WireCounts scan = CostOf(*scanner, OperationClass::kScan, [&] {
      const std::unique_ptr<ScanCursor> cursor = scanner->Scan(options);
      while (cursor->Next()) {
      }
      ASSERT_TRUE(cursor->status());
    });
    EXPECT_LE(scan.round_trips, 10 + levels);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*scanner));
  }
}

// The leaf of a cached path has split many times since.
TEST_F(StaleTest, APathFarBehindCostsADescentNotAWalk) {  // W7
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_TRUE(session_->Put(NumberKey(1), "a"));
  for (uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(session_->Put(NumberKey(1'000'000 + i), "b"));
  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> stale = other.NewSession();
  TestClient third(*cluster_);
  const std::unique_ptr<OpenSession> scanner = third.NewSession();
  for (OpenSession* session : {stale.get(), scanner.get()}) {
    const std::unique_ptr<ScanCursor> cursor = session->Scan({});
    while (cursor->Next()) {
    }
  }
  for (uint64_t i = 2; i < 3000; ++i) ASSERT_TRUE(session_->Put(NumberKey(i), "c"));
  const uint32_t levels = client_->Root().level();
  const WireCounts get =
      CostOf(*stale, OperationClass::kRead, [&] { ASSERT_TRUE(stale->Get(NumberKey(2500))); });
  EXPECT_LE(get.round_trips, 7 + levels);
  ScanOptions options;
  options.to = NumberKey(2501);
  options.reverse = true;
  options.limit = 5;
  std::vector<std::string> found;
  const WireCounts scan = CostOf(*scanner, OperationClass::kScan, [&] {
    const std::unique_ptr<ScanCursor> cursor = scanner->Scan(options);
    while (cursor->Next()) found.emplace_back(cursor->key());
  });
  EXPECT_LE(scan.round_trips, 12 + levels);
  ASSERT_EQ(found.size(), 5u);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(found[i], NumberKey(2500 - i));
}

// A leaf that was split since its parent was cached has the prefix of a smaller range, and so has
// each sibling behind it.
TEST_F(StaleTest, LeavesBehindHopsHavePrefixesOfTheirOwn) {
  constexpr uint64_t kFirst = 40;  // for some leaves, which have a parent
  ASSERT_NO_FATAL_FAILURE(Open({512, 32, 8}));
  for (uint64_t i = 0; i < kFirst; ++i) model_[fmt::format("{:02}-of-the-first", i)] = "first";
  for (const auto& [key, value] : model_) ASSERT_TRUE(session_->Put(key, value));
  TestClient others[] = {TestClient(*cluster_), TestClient(*cluster_), TestClient(*cluster_)};
  std::vector<std::unique_ptr<OpenSession>> stale;
  for (TestClient& other : others) {
    stale.push_back(other.NewSession());
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*stale.back()));
  }
  // Between two of the first keys, clusters with ever longer prefixes.
  for (const uint64_t at : {7u, 20u, 33u}) {
    for (size_t prefix = 1; prefix < 24; prefix += 4) {
      for (char last = 'a'; last < 'i'; ++last) {
        const std::string key = fmt::format("{:02}-q{}{}", at, std::string(prefix, 'x'), last);
        ASSERT_TRUE(session_->Put(key, "later"));
        model_[key] = "later";
      }
    }
  }
  // Each comes by a stale cache: a scan from the right, single gets, and a batch of gets.
  const auto scan_from_the_right = [&] {
    ScanOptions options;
    options.reverse = true;
    const std::unique_ptr<ScanCursor> cursor = stale[0]->Scan(options);
    auto expected = model_.rbegin();
    for (; cursor->Next(); ++expected) {
      ASSERT_NE(expected, model_.rend());
      ASSERT_EQ(cursor->key(), expected->first);
      ASSERT_EQ(cursor->value(), expected->second);
    }
    ASSERT_TRUE(cursor->status());
    EXPECT_EQ(expected, model_.rend());
  };
  const WireCounts repairs = CostOf(*stale[0], OperationClass::kInsertSplit, scan_from_the_right);
  EXPECT_GT(repairs.reads, 0u) << "no hop";
  std::vector<KeyView> keys;
  for (const auto& [key, value] : model_) {
    keys.push_back(key);
    const Result<std::string> got = stale[1]->Get(key);
    ASSERT_TRUE(got) << key << ": " << got.error().ToString();
    ASSERT_EQ(got.value(), value);
  }
  EXPECT_GT(stale[1]->counters().cache.stale, 0u) << "no hop";
  Values values;
  stale[2]->MultiGet(keys, values);
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(values[i]) << keys[i];
    ASSERT_EQ(values[i].value(), model_[std::string(keys[i])]);
  }
  for (const auto& session : stale) ASSERT_NO_FATAL_FAILURE(ExpectSame(*session));
  ExpectCleanCheck();
}

// A client died after a split and before it told the parent: the level above is rewritten without
// the downlink.
TEST_F(StaleTest, AMissingDownlinkIsMadeByWhoeverHops) {  // W6, W4
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(400));
  ASSERT_GE(client_->Root().level(), 2u);
  const RemotePtr pointer = LeftmostAt(1);
  const InternalNode whole = client_->Internal(pointer);
  ASSERT_GE(whole.children.size(), 3u);
  client_->RemoveDownlink(pointer);
  EXPECT_EQ(cluster_->Check().missing_downlinks, 1u);
  EXPECT_EQ(cluster_->Check().problem_count, 0u);

  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> hopper = other.NewSession();
  const std::string key(whole.children[1].separator.view());
  const auto found = model_.lower_bound(key);
  const Result<std::string> got = hopper->Get(found->first);
  ASSERT_TRUE(got) << got.error().ToString();
  EXPECT_EQ(got.value(), found->second);
  const InternalNode now = client_->Internal(pointer);
  ASSERT_EQ(now.children.size(), whole.children.size());
  EXPECT_EQ(now.children[1].pointer, whole.children[1].pointer);
  EXPECT_EQ(now.children[1].separator, whole.children[1].separator);
  ExpectCleanCheck();
  const WireCounts again =
      CostOf(*hopper, OperationClass::kRead, [&] { ASSERT_TRUE(hopper->Get(found->first)); });
  EXPECT_LE(again.round_trips, 2u);
}

class UnlinkedTest : public StaleTest {
 protected:
  void Lock(RemotePtr node) {
    const LockWord word(client_->LeaseWith(node.server()), node);
    ASSERT_EQ(client_->CompareSwap(node.server(), client_->LockSlot(node), 0, word.word()), 0u);
  }
  void Unlock(RemotePtr node) {
    const LockWord word(client_->LeaseWith(node.server()), node);
    ASSERT_EQ(client_->CompareSwap(node.server(), client_->LockSlot(node), word.word(), 0),
              word.word());
  }
  // A split below `parent` by `splitter`, whose downlink is not made: the parent's lock is
  // another's. `moved` gets a key that is in the new leaf.
  void SplitWithoutDownlink(RemotePtr parent, OpenSession& splitter, std::string& moved) {
    ASSERT_NO_FATAL_FAILURE(Lock(parent));
    // The leaf with the most keys, but for the first and the last one: few more split it.
    const std::vector<InternalNode::Child> leaves = client_->Internal(parent).children;
    std::vector<std::string> present;
    std::string high;
    for (size_t i = 1; i + 1 < leaves.size(); ++i) {
      const auto begin = model_.lower_bound(std::string(leaves[i].separator.view()));
      const auto end = model_.lower_bound(std::string(leaves[i + 1].separator.view()));
      if (static_cast<size_t>(std::distance(begin, end)) <= present.size()) continue;
      present.clear();
      for (auto one = begin; one != end; ++one) present.push_back(one->first);
      high = leaves[i + 1].separator.view();
    }
    ASSERT_FALSE(present.empty());
    const RemotePtr leaf = client_->LeafOf(present.front());
    for (char step = 1; moved.empty() && step <= 4; ++step) {
      for (size_t i = 0; moved.empty() && i < present.size(); ++i) {
        std::string key = present[i];
        key.back() = static_cast<char>(key.back() + step);
        ASSERT_TRUE(splitter.Put(key, "12345678"));
        model_[key] = "12345678";
        const std::string& last = std::prev(model_.lower_bound(high))->first;
        if (client_->LeafOf(last) != leaf) moved = last;
      }
    }
    ASSERT_FALSE(moved.empty());
    ASSERT_NO_FATAL_FAILURE(Unlock(parent));
    ASSERT_EQ(cluster_->Check().missing_downlinks, 1u);
  }
};

// Its cache has the new leaf from before, and would never hop: but it knows that the downlink is
// missing.
TEST_F(UnlinkedTest, WhoeverSplitTheLeafLinksItLater) {  // W6
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(400));
  TestClient hasty(*cluster_, {50, uint64_t{1} << 20});
  const std::unique_ptr<OpenSession> splitter = hasty.NewSession();
  std::string moved;
  ASSERT_NO_FATAL_FAILURE(SplitWithoutDownlink(LeftmostAt(1), *splitter, moved));
  ASSERT_TRUE(splitter->Get(moved));
  splitter->WaitAll();
  ExpectCleanCheck();
  const WireCounts again =
      CostOf(*splitter, OperationClass::kRead, [&] { ASSERT_TRUE(splitter->Get(moved)); });
  EXPECT_LE(again.round_trips, 2u);
}

// A repair that splits the parent owes the downlink to the new parent, as any split does: it waits
// for the lock of the level above.
TEST_F(UnlinkedTest, ARepairThatSplitsTheParentLinksIt) {  // W6
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(400));
  const RemotePtr above = LeftmostAt(2);
  // A parent that is full, but for its last child.
  const auto is_full = [](const InternalNode& node) {
    InternalNode more = node;
    more.children.push_back(node.children.back());
    return EncodedBytes(more) > 256;
  };
  const auto find_full = [&] {
    RemotePtr full;
    for (const InternalNode::Child& child : client_->Internal(above).children) {
      if (is_full(client_->Internal(child.pointer))) full = child.pointer;
    }
    return full;
  };
  RemotePtr parent = find_full();
  for (uint64_t number = 10; parent.is_null() && number <= 4000; number += 10) {
    const std::string key = NumberKey(number + 5);
    ASSERT_TRUE(session_->Put(key, "12345678"));
    model_[key] = "12345678";
    parent = find_full();
  }
  ASSERT_FALSE(parent.is_null());
  TestClient hasty(*cluster_, {50, uint64_t{1} << 20});
  const std::unique_ptr<OpenSession> splitter = hasty.NewSession();
  std::string moved;
  ASSERT_NO_FATAL_FAILURE(SplitWithoutDownlink(parent, *splitter, moved));

  ASSERT_NO_FATAL_FAILURE(Lock(above));
  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> hopper = other.NewSession();
  hopper->Spawn([](Session& session, const std::string& key) -> Task<void> {
    EXPECT_TRUE(co_await session.AsyncGet(key));
  }(*hopper, moved));
  const size_t before = client_->Internal(parent).children.size();
  while (client_->Internal(parent).children.size() == before) hopper->Poll();
  for (int i = 0; i < 100; ++i) {
    hopper->Poll();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  ASSERT_NO_FATAL_FAILURE(Unlock(above));
  hopper->WaitAll();
  ExpectCleanCheck();
}

// A repair only improves speed: a lock left on the parent must not delay the read that hopped.
TEST_F(StaleTest, AReadDoesNotWaitForTheLockOfItsRepair) {  // W6
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(400));
  const RemotePtr pointer = LeftmostAt(1);
  const std::string key(client_->RemoveDownlink(pointer).separator.view());
  const LockWord word({ComputeId{77}, 1}, pointer);
  ASSERT_EQ(client_->CompareSwap(pointer.server(), client_->LockSlot(pointer), 0, word.word()), 0u);

  TestClient patient(*cluster_, {600'000, uint64_t{1} << 20});
  const std::unique_ptr<OpenSession> reader = patient.NewSession();
  const auto found = model_.lower_bound(key);
  EXPECT_EQ(reader->Get(found->first).value(), found->second);
  EXPECT_LE(reader->counters().locks.remote_retries, 10u);
}

// A writer hops to a leaf whose lock is taken, and waits for it there. If it went back to the left
// neighbour after each refusal, it would lock that each time. Where both have one lock slot, many
// such writers would keep each other from the leaf.
TEST_F(StaleTest, AWriterWaitsWhereItHasHopped) {  // W7
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(400));
  const RemotePtr pointer = LeftmostAt(1);
  const InternalNode::Child hidden = client_->RemoveDownlink(pointer);
  const std::string key = model_.lower_bound(std::string(hidden.separator.view()))->first;
  // Nor can the downlink be made.
  for (const RemotePtr locked : {hidden.pointer, pointer}) {
    const LockWord word(client_->LeaseWith(locked.server()), locked);
    ASSERT_EQ(client_->CompareSwap(locked.server(), client_->LockSlot(locked), 0, word.word()), 0u);
  }

  TestClient hasty(*cluster_, {20, uint64_t{1} << 20});
  const std::unique_ptr<OpenSession> writer = hasty.NewSession();
  const Status written = writer->Update(key, "new");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kContended);
  EXPECT_GT(writer->counters().locks.remote_retries, 2u);
  EXPECT_LE(writer->counters().cache.stale, 1u);
}

}  // namespace
}  // namespace gossamer
