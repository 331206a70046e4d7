// Merges of nodes that lost entries (PROTOCOL.md, "Merges"). Costs are counted exactly.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/testing/places.h"
#include "compute/store/testing/protocol_fixture.h"
#include "compute/tree/tree.h"

namespace gossamer {
namespace {

using Kind = MergeQueue::Request::Kind;

class MergeTest : public ProtocolTest {
 protected:
  static constexpr uint64_t kKeys = 2000;

  // Deletes all keys but one in `keep` and runs no merge. 0: deletes all.
  void DeleteAllBut(uint64_t keep, uint64_t first = 0, uint64_t end = kKeys) {
    for (uint64_t i = first; i < end; ++i) {
      if (keep != 0 && i % keep == 0) continue;
      ASSERT_TRUE(session_->Delete(NumberKey(10 * i)));
      model_.erase(NumberKey(10 * i));
    }
  }
  static void Run(OpenSession& session, const MergeQueue::Request& request) {
    session
        .RunToEnd([](OpenSession& over, MergeQueue::Request one) -> Task<Status> {
          co_await over.tree().merger().Run(one);
          co_return Ok();
        }(session, request))
        .value();
  }
  // Runs what is noted.
  static void Merge(TestClient& client, OpenSession& session) {
    while (const std::optional<MergeQueue::Request> request = client.shared().merges.Take()) {
      Run(session, *request);
    }
  }
  void Merge() { Merge(*client_, *session_); }
  uint64_t NodeBytes() {
    const std::unique_ptr<Store> store = cluster_->OpenStore();
    uint64_t bytes = 0;
    const StoreStat stat = store->Stat().value();
    for (const ServerStat& server : stat.servers) bytes += server.node_extent_bytes;
    return bytes;
  }
};

TEST_F(MergeTest, CostsFourRoundTripsBehindALookOfTwo) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(1000));
  ASSERT_NO_FATAL_FAILURE(DeleteAllBut(8, 0, 1000));
  const RemotePtr root = client_->Root().pointer();
  ASSERT_EQ(client_->Root().level(), 1u);
  const auto children = client_->Internal(root).children.size();
  const std::string key = NumberKey(5000);
  const WireCounts merge = CostOf(*session_, OperationClass::kMerge,
                                  [&] { Run(*session_, {0, Key(key), Kind::kSparse}); });
  EXPECT_EQ(client_->Internal(root).children.size(), children - 1);
  EXPECT_EQ(merge.operations, 1u);
  EXPECT_EQ(merge.round_trips, 2u + 4u);
  EXPECT_EQ(
      merge.reads,
      1u + 3u +
          3u);  // the parent; the leaf and its neighbours; both and the parent under the locks
  EXPECT_EQ(merge.writes, 3u);
  EXPECT_EQ(merge.atomics, 6u);
  // A leaf that has many entries is looked at, and left alone.
  ASSERT_NO_FATAL_FAILURE(Load(1000));
  const WireCounts look = CostOf(*session_, OperationClass::kMerge,
                                 [&] { Run(*session_, {0, Key(key), Kind::kSparse}); });
  EXPECT_EQ(look.round_trips, 2u);
  EXPECT_EQ(look.atomics + look.writes, 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

TEST_F(MergeTest, WhatWasDeletedIsGivenBack) {
  for (const StoreParameters& parameters :
       {StoreParameters{256, 8, 8}, StoreParameters{1024, 8, 8}}) {
    model_.clear();
    ASSERT_NO_FATAL_FAILURE(Open(parameters, 2));
    ASSERT_NO_FATAL_FAILURE(Load(kKeys));
    const uint64_t leaves = cluster_->Check().leaves;
    const uint64_t bytes = NodeBytes();
    ASSERT_NO_FATAL_FAILURE(DeleteAllBut(10));
    Merge();
    ExpectCleanCheck();
    EXPECT_LE(cluster_->Check().leaves, leaves / 5);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
    for (auto entry = model_.begin(); entry != model_.end(); entry = model_.erase(entry)) {
      const Status gone = session_->Delete(entry->first);
      ASSERT_TRUE(gone || gone.error().code == Code::kNotFound);
    }
    Merge();
    ExpectCleanCheck();
    const CheckReport empty = cluster_->Check();
    EXPECT_EQ(empty.leaves, 1u);
    EXPECT_EQ(empty.internal_nodes, 0u);
    // All of it again, in the same memory.
    ASSERT_NO_FATAL_FAILURE(Load(kKeys));
    EXPECT_EQ(NodeBytes(), bytes);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
    ExpectCleanCheck();
  }
}

// The locks of a node, its neighbour and its parent may be the same, or have turns that are the
// same.
TEST_F(MergeTest, NodesMayShareALock) {
  for (const uint64_t lock_table_bytes : {8, 16, 64, 1024}) {
    model_.clear();
    ClusterOptions options;
    options.parameters = {256, 8, 8};
    options.servers = 2;
    options.lock_table_bytes = lock_table_bytes;
    OpenCluster(options);
    ASSERT_NO_FATAL_FAILURE(Load(500));
    TestClient client(*cluster_);
    const std::unique_ptr<OpenSession> session = client.NewSession();
    for (auto entry = model_.begin(); entry != model_.end(); entry = model_.erase(entry)) {
      ASSERT_TRUE(session->Delete(entry->first));
    }
    Merge(client, *session);
    ExpectCleanCheck();
    const CheckReport empty = cluster_->Check();
    EXPECT_EQ(empty.leaves, 1u) << lock_table_bytes;
    EXPECT_EQ(empty.internal_nodes, 0u) << lock_table_bytes;
    EXPECT_EQ(client.shared().locks.CountTurns(), 0u);
  }
}

TEST_F(MergeTest, MemoryServersGetBackWhatALivingClientFreed) {
  constexpr uint64_t kMany = 60'000;  // a client keeps 512 KiB
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(kMany));
  const uint64_t full = NodeBytes();
  ASSERT_NO_FATAL_FAILURE(DeleteAllBut(0, 0, kMany));
  Merge();
  EXPECT_EQ(cluster_->Check().leaves, 1u);
  EXPECT_LT(NodeBytes(), full / 2);
  ASSERT_NO_FATAL_FAILURE(Load(kMany));
  EXPECT_LE(NodeBytes(), full + full / 8);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

// Another compute server's cache leads to leaves that were merged, and whose memory is used again.
TEST_F(MergeTest, StalePathsLeadToWhatWasMerged) {
  for (const bool is_reused : {false, true}) {
    for (const StoreParameters& parameters :
         {StoreParameters{256, 8, 8}, StoreParameters{1024, 8, 8}}) {
      model_.clear();
      ASSERT_NO_FATAL_FAILURE(Open(parameters));
      ASSERT_NO_FATAL_FAILURE(Load(kKeys));
      TestClient other(*cluster_);
      TestClient third(*cluster_);
      const std::unique_ptr<OpenSession> reader = other.NewSession();
      const std::unique_ptr<OpenSession> writer = third.NewSession();
      ASSERT_NO_FATAL_FAILURE(ExpectSame(*reader));
      ASSERT_NO_FATAL_FAILURE(ExpectSame(*writer));
      ASSERT_NO_FATAL_FAILURE(DeleteAllBut(16));
      Merge();
      if (is_reused) {
        for (uint64_t i = 0; i < kKeys; ++i) {
          const std::string key = NumberKey(100 * kKeys + i);
          ASSERT_TRUE(session_->Put(key, "12345678"));
          model_[key] = "12345678";
        }
      }
      for (uint64_t i = 0; i < kKeys; ++i) {
        const Result<std::string> value = reader->Get(NumberKey(10 * i));
        ASSERT_EQ(value.has_value(), i % 16 == 0) << i;
        if (i % 48 == 0) {
          ASSERT_TRUE(writer->Put(NumberKey(10 * i), "written")) << i;
          model_[NumberKey(10 * i)] = "written";
        }
      }
      ASSERT_NO_FATAL_FAILURE(ExpectSame(*reader));
      ASSERT_NO_FATAL_FAILURE(ExpectSame(*writer));
      ExpectCleanCheck();
    }
  }
}

// Before the scan has met them, so that it goes on over leaves of the past in both directions.
TEST_F(MergeTest, ScansGoOnWhileLeavesAreMerged) {
  for (const bool reverse : {false, true}) {
    model_.clear();
    ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}));
    ASSERT_NO_FATAL_FAILURE(Load(kKeys));
    TestClient other(*cluster_);
    const std::unique_ptr<OpenSession> reader = other.NewSession();
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*reader));
    ScanOptions options;
    options.reverse = reverse;
    const std::unique_ptr<ScanCursor> cursor = reader->Scan(options);
    ASSERT_TRUE(cursor->Next());
    ASSERT_NO_FATAL_FAILURE(DeleteAllBut(16));
    Merge();
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(session_->Put(NumberKey(100 * kKeys + i), "12345678"));
    }
    std::vector<std::string> found;
    while (cursor->Next()) found.emplace_back(cursor->key());
    ASSERT_TRUE(cursor->status()) << cursor->status().error().ToString();
    ASSERT_TRUE(reverse ? std::ranges::is_sorted(found, std::greater<>())
                        : std::ranges::is_sorted(found));
    for (const auto& [key, value] : model_) {
      const bool was_first = key == NumberKey(reverse ? 10 * (kKeys - 1) : 0);
      EXPECT_TRUE(was_first || std::ranges::find(found, key) != found.end());
    }
  }
}

// A client dies at each verb of a merge. (At the first verbs nothing has happened yet.)
TEST_F(MergeTest, AnyPartOfAMergeIsAWholeTree) {
  bool has_merged = false;
  uint64_t unfinished = 0;
  for (uint64_t verb = 1; !has_merged; ++verb) {
    for (const uint64_t applied : {0, 1}) {
      model_.clear();
      ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
      ASSERT_NO_FATAL_FAILURE(Load(300));
      ASSERT_NO_FATAL_FAILURE(DeleteAllBut(8, 0, 300));
      const Key key(NumberKey(1500));
      {
        TestClient dies(*cluster_);
        FaultPlan plan;
        const std::unique_ptr<OpenSession> session = dies.NewSession(plan);
        ASSERT_TRUE(session->Get(NumberKey(0)));
        plan.break_at = plan.verbs + verb;
        plan.applied = applied;
        plan.can_reconnect = false;
        Run(*session, {0, key, Kind::kSparse});
        has_merged = session->counters().of(OperationClass::kMerge).operations != 0;
      }
      const CheckReport left = cluster_->Check();
      EXPECT_EQ(left.problem_count, 0u) << testing::PrintToString(left.problems);
      EXPECT_EQ(left.keys, model_.size());
      unfinished += left.missing_downlinks;
      ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
      TestClient other(*cluster_);
      const std::unique_ptr<OpenSession> writer = other.NewSession();
      for (uint64_t i = 0; i < 300; ++i) {
        const Result<std::string> value = writer->Get(NumberKey(10 * i));
        ASSERT_EQ(value.has_value(), i % 8 == 0) << i;
        ASSERT_TRUE(writer->Put(NumberKey(10 * i), "written")) << i;
        model_[NumberKey(10 * i)] = "written";
      }
      ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
      Merge(other, *writer);
      ASSERT_NO_FATAL_FAILURE(ExpectSame(*writer));
      ExpectCleanCheck();
    }
  }
  EXPECT_GT(unfinished, 1u) << "no client died where a merge was not finished";
}

// The left leaf has grown, so that it cannot take all in, and there is no memory for another leaf.
TEST_F(MergeTest, AnUnfinishedMergeTakesNoMemoryOfAWrite) {
  uint64_t undone = 0;
  const auto die_at = [&](size_t servers, uint64_t verb) {
    SCOPED_TRACE(fmt::format("{} servers, verb {}", servers, verb));
    model_.clear();
    ClusterOptions options;
    options.parameters = {1024, 8, 8};
    options.servers = servers;
    options.memory_bytes = uint64_t{256} << 10;
    options.chunk_bytes = uint64_t{16} << 10;
    OpenCluster(options);
    ASSERT_NO_FATAL_FAILURE(Load(300));
    ASSERT_NO_FATAL_FAILURE(DeleteAllBut(2, 0, 300));
    const RemotePtr parent = LeftmostAt(1);
    const InternalNode before = client_->Internal(parent);
    {
      TestClient dies(*cluster_);
      FaultPlan plan;
      const std::unique_ptr<OpenSession> session = dies.NewSession(plan);
      ASSERT_TRUE(session->Get(NumberKey(0)));
      plan.break_at = plan.verbs + verb;
      plan.applied = 1;
      Run(*session, {0, Key(NumberKey(1500)), Kind::kSparse});
    }
    // The leaf that is frozen, and the one before.
    const LeafGeometry& geometry = client_->shared().geometry;
    const auto trailer_of = [&](RemotePtr leaf) {
      const std::vector<std::byte> image = client_->LeafBytes(leaf);
      return *TrailerView::Parse(std::span(image).subspan(geometry.trailer_offset()), leaf,
                                 geometry);
    };
    size_t at = 1;
    while (at < before.children.size() && !trailer_of(before.children[at].pointer).frozen()) ++at;
    if (at == before.children.size()) return;
    const InternalNode::Child& right = before.children[at];
    const InternalNode::Child& left = before.children[at - 1];
    if (trailer_of(left.pointer).sibling() != right.pointer) return;

    TestClient other(*cluster_);
    const std::unique_ptr<OpenSession> writer = other.NewSession();
    // Into the left leaf, nearly as many as it takes. The numbers between those of Load are free.
    const auto number_of = [](const Key& key) {
      uint64_t number = 0;
      for (const char byte : key.view()) number = number << 8 | static_cast<uint8_t>(byte);
      return number << 8 * (8 - key.size());
    };
    const auto count_of = [&](const InternalNode::Child& child) {
      const std::vector<std::byte> image = client_->LeafBytes(child.pointer);
      return LeafView::Parse(image, child.pointer, geometry, child.separator)->count();
    };
    // Entries of 10 B, as the keys share six bytes or more: 14 in each unit.
    const uint32_t most = 14 * geometry.units();
    for (uint64_t next = number_of(left.separator) | 1; count_of(left) + count_of(right) <= most;
         next += 2) {
      const std::string key = NumberKey(next);
      if (KeyView(key) >= right.separator.view()) break;
      ASSERT_TRUE(writer->Put(key, "12345678"));
      model_[key] = "12345678";
    }
    if (trailer_of(left.pointer).sibling() != right.pointer) return;  // it was split
    // All other memory is taken.
    uint64_t more = 1'000'000;
    Status put = Ok();
    while ((put = writer->Put(NumberKey(more), "12345678"))) model_[NumberKey(more++)] = "12345678";
    ASSERT_EQ(put.error().code, Code::kExhausted);

    ASSERT_TRUE(trailer_of(right.pointer).frozen());
    const auto gone = model_.lower_bound(std::string(right.separator.view()));
    ASSERT_NE(gone, model_.end());
    const Status deleted = writer->Delete(gone->first);
    ASSERT_TRUE(deleted) << deleted.error().ToString();
    model_.erase(gone);
    undone += trailer_of(right.pointer).frozen() ? 0 : 1;
    EXPECT_EQ(other.shared().locks.CountTurns(), 0u);
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*writer));
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
    const CheckReport report = cluster_->Check();
    EXPECT_EQ(report.problem_count, 0u) << testing::PrintToString(report.problems);
    EXPECT_EQ(report.keys, model_.size());
  };
  // Whether the leaves have few enough entries for a merge is drawn.
  for (int round = 0; round < 5 && undone == 0; ++round) {
    for (const size_t servers : {1, 3}) {
      for (uint64_t verb = 1; verb <= 20; ++verb) {
        ASSERT_NO_FATAL_FAILURE(die_at(servers, verb));
      }
    }
  }
  EXPECT_GT(undone, 0u);
}

// A connection that is lost and made again at each verb of a merge.
TEST_F(MergeTest, AMergeGoesOnAfterALoss) {
  for (uint64_t verb = FirstPlace(); verb <= 18; verb += kPlaceStep) {
    for (const uint64_t applied : {0, 1, 3}) {
      model_.clear();
      ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}, 2));
      ASSERT_NO_FATAL_FAILURE(Load(300));
      ASSERT_NO_FATAL_FAILURE(DeleteAllBut(8, 0, 300));
      FaultPlan plan;
      const std::unique_ptr<OpenSession> session = client_->NewSession(plan);
      ASSERT_TRUE(session->Get(NumberKey(0)));
      plan.break_at = plan.verbs + verb;
      plan.applied = applied;
      plan.can_reconnect = true;
      Run(*session, {0, Key(NumberKey(1500)), Kind::kSparse});
      Merge(*client_, *session);
      ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
      ExpectCleanCheck();
    }
  }
}

// The merging client loses the parent's lock with its lease there, but not its lease with the right
// node's server. Until it has frozen the right node, or is fenced there too, nobody links that
// again (rule W4).
TEST_F(MergeTest, ANodeThatIsBeingMergedIsNotLinkedAgain) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}, 2));
  ASSERT_NO_FATAL_FAILURE(Load(kKeys));
  ASSERT_NO_FATAL_FAILURE(DeleteAllBut(8));
  const RemotePtr parent = LeftmostAt(1);
  const InternalNode before = client_->Internal(parent);
  size_t at = 1;
  const size_t end = before.children.size() - 1;
  while (at < end && before.children[at].pointer.server() == parent.server()) ++at;
  ASSERT_LT(at, end) << "no leaf is on another server than its parent";
  const InternalNode::Child right = before.children[at];
  const auto is_linked = [&] {
    const InternalNode node = client_->Internal(parent);
    return std::ranges::any_of(node.children,
                               [&](const auto& child) { return child.pointer == right.pointer; });
  };
  // Both are empty: they, and no others, are merged.
  std::vector<std::string> gone;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const std::string key = NumberKey(10 * i);
    const bool is_in_both = KeyView(key) >= before.children[at - 1].separator.view() &&
                            KeyView(key) < before.children[at + 1].separator.view();
    if (!is_in_both) continue;
    gone.push_back(key);
    if (model_.erase(key) == 0) continue;
    ASSERT_TRUE(session_->Delete(key));
  }
  TestClient merging(*cluster_);
  FaultPlan plan;
  const std::unique_ptr<OpenSession> session = merging.NewSession(plan);
  ASSERT_FALSE(model_.empty());
  ASSERT_TRUE(session->Get(model_.begin()->first));
  bool is_done = false;
  plan.allowed_verbs = plan.verbs;
  session->Spawn([](OpenSession& over, Key key, bool& done) -> Task<void> {
    co_await over.tree().merger().Run({0, key, Kind::kSparse});
    done = true;
  }(*session, right.separator, is_done));
  StepGuard guard(plan);
  const auto children = [&] { return client_->Internal(parent).children.size(); };
  while (!is_done && children() == before.children.size()) {
    ++plan.allowed_verbs;
    for (int i = 0; i < 200; ++i) session->Poll();
  }
  ASSERT_FALSE(is_done);
  ASSERT_FALSE(is_linked());
  const auto word_of = [&](RemotePtr node) {
    return client_->CompareSwap(node.server(), client_->LockSlot(node), 0, 0);
  };
  const uint64_t word = word_of(parent);
  ASSERT_EQ(client_->CompareSwap(parent.server(), client_->LockSlot(parent), word, 0), word);
  // Others hop to it, and would link it.
  for (int i = 0; i < 3; ++i) {
    TestClient other(*cluster_);
    const std::unique_ptr<OpenSession> hops = other.NewSession();
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*hops));
    for (const std::string& key : gone) ASSERT_FALSE(hops->Get(key));
    hops->WaitAll();
  }
  EXPECT_FALSE(is_linked());
  plan.allowed_verbs = FaultPlan::kNever;
  while (!is_done) session->Poll();
  EXPECT_FALSE(is_linked());
  Merge();
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

// All levels of the cached path were merged away.
TEST_F(MergeTest, AStalePathOfAnyDepthIsFoundAnew) {
  constexpr uint64_t kMany = 8000;
  // A few in a row begin alike, and others differ at once: separators are long and share little, so
  // nodes have few children.
  const auto long_key = [](uint64_t number) {
    const uint64_t some = KeyHash(NumberKey(number / 8));
    return fmt::format("{:016x}", some) + std::string(8, 'k') + NumberKey(number);
  };
  ASSERT_NO_FATAL_FAILURE(Open({256, 32, 16}));
  for (uint64_t i = 0; i < kMany; ++i) ASSERT_TRUE(session_->Put(long_key(i), "v"));
  ASSERT_GE(client_->Root().level(), 5u);
  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> stale = other.NewSession();
  for (uint64_t i = 0; i < kMany; ++i) ASSERT_TRUE(stale->Get(long_key(i)));
  for (uint64_t i = 0; i < kMany; ++i) {
    if (i % 997 == 0) continue;
    ASSERT_TRUE(session_->Delete(long_key(i)));
  }
  Merge();
  EXPECT_LE(cluster_->Check().leaves, 10u);
  for (uint64_t i = 0; i < kMany; i += 997) {
    const Result<std::string> value = stale->Get(long_key(i));
    ASSERT_TRUE(value) << value.error().ToString();
    ASSERT_TRUE(stale->Put(long_key(i), "w"));
  }
  EXPECT_EQ(cluster_->Check().problem_count, 0u);
}

TEST_F(MergeTest, BatchesNoteTheirOwnLeaves) {
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(kKeys));
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < kKeys; ++i) keys.push_back(NumberKey(10 * i));
  std::ranges::shuffle(keys, random_);
  for (size_t i = 0; i < keys.size(); i += 50) {
    const std::vector<std::string_view> some(keys.begin() + static_cast<ptrdiff_t>(i),
                                             keys.begin() + static_cast<ptrdiff_t>(i + 50));
    for (const Status& status : session_->MultiDelete(some)) ASSERT_TRUE(status);
  }
  model_.clear();
  Merge();
  EXPECT_EQ(cluster_->Check().leaves, 1u);
  ExpectCleanCheck();
}

// Nodes and blocks take each other's memory.
TEST_F(MergeTest, BlocksGetTheMemoryOfNodes) {
  ClusterOptions options;
  options.parameters = {1024, 8, 8};
  options.memory_bytes = uint64_t{2} << 20;
  options.chunk_bytes = uint64_t{64} << 10;
  ASSERT_NO_FATAL_FAILURE(OpenCluster(options));
  uint64_t count = 0;
  while (session_->Put(NumberKey(10 * count), "12345678")) ++count;
  for (uint64_t i = 0; i < count; ++i) ASSERT_TRUE(session_->Delete(NumberKey(10 * i)));
  Merge();
  const std::string value(10'000, 'x');
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(session_->Put(NumberKey(i), value)) << i;
}

}  // namespace
}  // namespace gossamer
