// The rules of PROTOCOL.md about locks that are left behind, shared or waited for, and about a leaf
// and its sibling on different servers.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "common/process.h"
#include "compute/store/testing/protocol_fixture.h"

namespace gossamer {
namespace {

TEST_F(ProtocolTest, ALockOfOneWhoLivesStopsWritersOnly) {  // L1, L2, L6
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(200));
  TestClient hasty(*cluster_, {20, uint64_t{1} << 20});
  const std::unique_ptr<OpenSession> session = hasty.NewSession();
  const std::string key = NumberKey(1000);
  const RemotePtr leaf = client_->LeafOf(key);
  const uint64_t slot = client_->LockSlot(leaf);
  const Lease lease = client_->LeaseWith(leaf.server());
  const LockWord word(lease, leaf);
  ASSERT_EQ(client_->CompareSwap(leaf.server(), slot, 0, word.word()), 0u);

  for (const Status& status :
       {session->Put(key, "new"), session->Delete(key), session->Update(key, "new"),
        session->Put(key, std::string(100, 'b'))}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kContended);
    const std::string holder = fmt::format(
        "could not be taken for 20 ms, and was last held by compute server {} (incarnation {}), "
        "{}: try again",
        static_cast<uint16_t>(lease.compute), lease.incarnation, Describe(OwnProcessName()));
    EXPECT_NE(status.error().message.find(holder), std::string::npos) << status.error().message;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session));
  EXPECT_EQ(session->Get(key).value(), model_[key]);
  const CheckReport report = cluster_->Check();
  EXPECT_EQ(report.locks_held, 1u);
  EXPECT_EQ(report.locks_of_the_dead, 0u);
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_NE(report.problems[0].find("whose lease is in force: stop its clients first, or wait"),
            std::string::npos)
      << report.problems[0];

  ASSERT_EQ(client_->CompareSwap(leaf.server(), slot, word.word(), 0), word.word());
  ASSERT_TRUE(session->Put(key, "new"));
  model_[key] = "new";
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session));
  ExpectCleanCheck();
}

TEST_F(ProtocolTest, CheckReleasesLocksOfTheDead) {  // L6
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(200));
  const RemotePtr leaf = client_->LeafOf(NumberKey(100));
  const uint64_t slot = client_->LockSlot(leaf);
  LockWord left;
  {
    TestClient mortal(*cluster_);
    left = LockWord(mortal.shared().servers.Find(leaf.server())->lease, leaf);
    ASSERT_EQ(mortal.CompareSwap(leaf.server(), slot, 0, left.word()), 0u);
    EXPECT_EQ(cluster_->Check().locks_held, 1u) << "while it lives";
  }
  // The server notices the end a moment later.
  CheckReport report = cluster_->Check();
  while (report.locks_held != 0) report = cluster_->Check();
  EXPECT_EQ(report.locks_of_the_dead, 1u);
  EXPECT_EQ(report.problem_count, 0u);
  EXPECT_EQ(client_->CompareSwap(leaf.server(), slot, 0, 0), 0u);
}

TEST_F(ProtocolTest, ALockOfTheDeadIsTakenFromThem) {  // L6
  ASSERT_NO_FATAL_FAILURE(Open({1024, 8, 8}));
  ASSERT_NO_FATAL_FAILURE(Load(200));
  const std::string key = NumberKey(1000);
  const RemotePtr leaf = client_->LeafOf(key);
  const uint64_t slot = client_->LockSlot(leaf);
  {
    TestClient doomed(*cluster_);
    const LockWord word(doomed.LeaseWith(leaf.server()), leaf);
    ASSERT_EQ(doomed.CompareSwap(leaf.server(), slot, 0, word.word()), 0u);
  }
  for (const char* value : {"first", "second"}) {
    const Status status = session_->Put(key, value);
    ASSERT_TRUE(status) << status.error().ToString();
    model_[key] = value;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

// All nodes share one lock: an operation that holds it must not wait for a second one.
TEST_F(ProtocolTest, OneLockForTheWholeTree) {  // W5
  ClusterOptions options;
  options.parameters = {256, 8, 8};
  options.lock_table_bytes = 8;
  options.servers = 2;
  ASSERT_NO_FATAL_FAILURE(OpenCluster(options));
  std::vector<KeyValue> pairs;
  for (uint64_t i = 0; i < 1000; ++i) {
    pairs.push_back({NumberKey(10 * i), "12345678"});
    model_[pairs.back().key] = pairs.back().value;
  }
  std::shuffle(pairs.begin(), pairs.end(), random_);
  for (const Status& status : session_->MultiPut(pairs)) {
    ASSERT_TRUE(status) << status.error().ToString();
  }
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

// An operation keeps its turn at a lock while it searches for the node again. It must not wait for
// it.
TEST_F(ProtocolTest, NobodyWaitsForHisOwnTurn) {  // W5
  ClusterOptions options;
  options.parameters = {256, 8, 8};
  options.lock_table_bytes = 8;
  ASSERT_NO_FATAL_FAILURE(OpenCluster(options));
  ASSERT_NO_FATAL_FAILURE(Load(30));
  ASSERT_EQ(client_->Root().level(), 1u);
  TestClient other(*cluster_, {200, 0});
  FaultPlan plan;
  const std::unique_ptr<OpenSession> writer = other.NewSession(plan);
  const RemotePtr root = client_->Root().pointer();
  const LockWord word(client_->LeaseWith(root.server()), root);
  ASSERT_EQ(client_->CompareSwap(ServerId{0}, 0, 0, word.word()), 0u);
  std::optional<Status> put;
  const std::string key = NumberKey(100);
  const auto run = [&]() -> Task<void> { put = co_await writer->AsyncPut(key, "12345678"); };
  do {  // again if this thread was descheduled until the put gave up
    put.reset();
    plan.verbs = 0;
    writer->Spawn(run());
    while (!put && plan.verbs < 8) writer->Poll();  // root word, root, CAS and READ, again
  } while (put);
  Flip(root.server(), root.offset() + 100);
  const auto start = std::chrono::steady_clock::now();
  while (!put && std::chrono::steady_clock::now() - start < std::chrono::seconds(200)) {
    writer->Poll();
  }
  ASSERT_TRUE(put) << "waits for itself";
  EXPECT_EQ(put->error().code, Code::kContended);
  Flip(root.server(), root.offset() + 100);
  ASSERT_EQ(client_->CompareSwap(ServerId{0}, 0, word.word(), 0), word.word());
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

TEST_F(ProtocolTest, NodesSpreadOverServers) {
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}, 3));
  ASSERT_NO_FATAL_FAILURE(Load(3000));
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
  const CheckReport report = cluster_->Check();
  ASSERT_EQ(report.nodes_per_server.size(), 3u);
  const uint64_t nodes = report.leaves + report.internal_nodes;
  for (const auto& [server, here] : report.nodes_per_server) EXPECT_GE(here, nodes / 5) << server;
}

// Between any two verbs of splits over two servers, no leaf points to a sibling that is not there.
TEST_F(ProtocolTest, ASiblingElsewhereIsWrittenBeforeItsLeaf) {  // W1
  ASSERT_NO_FATAL_FAILURE(Open({256, 8, 8}, 2));
  ASSERT_NO_FATAL_FAILURE(Load(60));
  FaultPlan plan;
  TestClient other(*cluster_);
  const std::unique_ptr<OpenSession> writer = other.NewSession(plan);
  const StepGuard guard(plan);
  size_t elsewhere = 0;
  for (uint64_t i = 0; i < 240; ++i) {
    const std::string key = NumberKey(10 * (i * 7 % 60) + 1 + i % 9);
    model_[key] = "12345678";
    plan.allowed_verbs = plan.verbs;
    std::optional<Status> put;
    const auto run = [&]() -> Task<void> { put = co_await writer->AsyncPut(key, "12345678"); };
    writer->Spawn(run());
    while (!put || writer->Poll() != 0) {
      ++plan.allowed_verbs;
      for (int poll = 0; poll < 8; ++poll) writer->Poll();
      // The whole chain of leaves is valid at every step.
      auto [leaf, low] = client_->FindLeaf(NumberKey(0));
      while (!leaf.is_null()) {
        const std::vector<std::byte> bytes = client_->LeafBytes(leaf);
        const std::optional<LeafView> view =
            LeafView::Parse(bytes, leaf, client_->shared().geometry, low);
        ASSERT_TRUE(view) << "verb " << plan.verbs;
        const RemotePtr sibling = view->trailer().sibling();
        if (!sibling.is_null() && sibling.server() != leaf.server()) ++elsewhere;
        low = view->high().key;
        leaf = sibling;
      }
    }
    ASSERT_TRUE(*put) << put->error().ToString();
    plan.allowed_verbs = FaultPlan::kNever;
  }
  EXPECT_EQ(plan.forbidden_writes, 0u);
  EXPECT_GT(elsewhere, 0u);
  ASSERT_NO_FATAL_FAILURE(ExpectSame(*session_));
  ExpectCleanCheck();
}

}  // namespace
}  // namespace gossamer
