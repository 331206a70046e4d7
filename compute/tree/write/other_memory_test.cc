// The memory granted to a write becomes useless: its server is gone or has ended the lease (rule
// U4). The write gets other memory, and the caller does not notice.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

constexpr ServerId kOther{1};

class OtherMemoryTest : public testing::Test {
 protected:
  static ClusterOptions Options() {
    ClusterOptions options;
    options.parameters = {256, 8, 8};
    options.servers = 2;
    options.memory_bytes = uint64_t{4} << 20;
    options.chunk_bytes = uint64_t{64} << 10;
    return options;
  }
  // What the entries and siblings of the leaves refer to on the other server.
  struct Elsewhere {
    std::vector<RemotePtr> leaves;
    size_t blocks = 0;
  };
  static Elsewhere FindElsewhere(TestClient& client) {
    Elsewhere elsewhere;
    Key low;
    for (RemotePtr node = client.LeafOf(NumberKey(0)); !node.is_null();) {
      if (node.server() == kOther) elsewhere.leaves.push_back(node);
      const std::vector<std::byte> bytes = client.LeafBytes(node);
      const LeafGeometry& geometry = client.shared().geometry;
      const std::optional<LeafView> leaf = LeafView::Parse(bytes, node, geometry, low);
      EXPECT_TRUE(leaf);
      if (!leaf) break;
      for (uint32_t unit = 0; unit < geometry.units(); ++unit) {
        leaf->unit(unit).ForEach([&elsewhere](const Entry& entry) {
          if (entry.has_block() && entry.block().ptr().server() == kOther) ++elsewhere.blocks;
        });
      }
      low = leaf->high().key;
      node = leaf->trailer().sibling();
    }
    return elsewhere;
  }
  // Acts as if another session of this compute server had got a new lease from the other server.
  static void EndLease(TestClient& client) {
    const Lease lease = client.LeaseWith(kOther);
    client.shared().allocator.Registered(kOther, {{lease.compute, lease.incarnation + 1}, 0, {}});
  }
  // Puts a key. After `verbs` verbs the other server's lease turns out to have ended. Returns the
  // number of verbs executed.
  static uint64_t PutMeanwhile(TestClient& client, const std::string& key, const std::string& value,
                               uint64_t verbs) {
    FaultPlan plan;
    const std::unique_ptr<OpenSession> session = client.NewSession(plan);
    const StepGuard guard(plan);
    plan.allowed_verbs = verbs;
    std::optional<Status> put;
    const auto run = [&]() -> Task<void> { put = co_await session->AsyncPut(key, value); };
    session->Spawn(run());
    for (int poll = 0; poll < 100'000 && !put && !plan.holds_back; ++poll) session->Poll();
    EndLease(client);
    plan.allowed_verbs = FaultPlan::kNever;
    session->WaitAll();
    EXPECT_TRUE(put && *put) << put->error().ToString();
    return plan.verbs;
  }
};

TEST_F(OtherMemoryTest, ABlockOfAnEndedLeaseIsNotLinked) {
  const std::string value(100, 'v');
  // Blocks alternate between the servers: one of two such puts would use the other server.
  for (uint64_t before = 0; before < 2; ++before) {
    TestCluster cluster(Options());
    TestClient client(cluster);
    const std::unique_ptr<OpenSession> session = client.NewSession();
    for (uint64_t i = 0; i < before; ++i) ASSERT_TRUE(session->Put(NumberKey(i), value));
    const size_t elsewhere = FindElsewhere(client).blocks;
    PutMeanwhile(client, NumberKey(before), value, 0);
    EXPECT_EQ(FindElsewhere(client).blocks, elsewhere);
    EXPECT_EQ(session->Get(NumberKey(before)).value(), value);
    EXPECT_EQ(cluster.Check().problem_count, 0u);
  }
}

// Puts keys until the sibling of a split lies on the other server. Then repeats that put once for
// each verb, in another store with the same content.
TEST_F(OtherMemoryTest, ASiblingOfAnEndedLeaseIsNotLinked) {
  uint64_t loaded = 0;
  {
    TestCluster cluster(Options());
    TestClient client(cluster);
    const std::unique_ptr<OpenSession> session = client.NewSession();
    while (loaded < 2000 && FindElsewhere(client).leaves.empty()) {
      ASSERT_TRUE(session->Put(NumberKey(loaded++), "12345678"));
    }
    ASSERT_LT(loaded, 2000u);
  }
  // Number of verbs from which on the sibling is linked, because the WRITE that links it was
  // posted.
  std::optional<uint64_t> linked_from;
  uint64_t verbs = 0;
  for (uint64_t executed = 0; executed == 0 || executed < verbs; ++executed) {
    TestCluster cluster(Options());
    TestClient client(cluster);
    {
      const std::unique_ptr<OpenSession> session = client.NewSession();
      for (uint64_t i = 0; i + 1 < loaded; ++i) {
        ASSERT_TRUE(session->Put(NumberKey(i), "12345678"));
      }
    }
    verbs = PutMeanwhile(client, NumberKey(loaded - 1), "12345678", executed);
    const bool is_linked = !FindElsewhere(client).leaves.empty();
    if (is_linked && !linked_from) linked_from = executed;
    EXPECT_EQ(is_linked, linked_from.has_value()) << executed << " of " << verbs;
    EXPECT_EQ(cluster.Check().problem_count, 0u);
    EXPECT_EQ(client.NewSession()->Get(NumberKey(loaded - 1)).value(), "12345678");
  }
  ASSERT_TRUE(linked_from);
  // That WRITE is behind the sibling's, and before the unlock and the verbs of a new root: lock,
  // READ root word; WRITE root, READ child and its lock; CAS root word; unlock.
  EXPECT_EQ(verbs, *linked_from + 8);
}

TEST_F(OtherMemoryTest, OpenClientsAllocateOnTheServersThatLive) {
  TestCluster cluster(Options());
  TestClient client(cluster, {10'000, uint64_t{1} << 20});
  const std::unique_ptr<OpenSession> session = client.NewSession();
  // Few enough that all leaves are on the first server, while blocks are on both.
  constexpr uint64_t kLoaded = 20;
  for (uint64_t i = 0; i < kLoaded; ++i) {
    ASSERT_TRUE(session->Put(NumberKey(i), std::string(100, 'v')));
  }
  ASSERT_TRUE(FindElsewhere(client).leaves.empty());
  ASSERT_GT(FindElsewhere(client).blocks, 0u);
  cluster.Kill(kOther);
  // Until the session notices, its writes to that server are lost with it, as its earlier content
  // is.
  const auto can_read_all = [&] {
    for (uint64_t i = 0; i < kLoaded; ++i) {
      if (!session->Get(NumberKey(i))) return false;
    }
    return true;
  };
  while (can_read_all()) {
  }
  constexpr uint64_t kInserts = 3'000;
  uint64_t failed = 0;
  for (uint64_t i = 0; i < kInserts; ++i) {
    const std::string value(i % 2 == 0 ? 100 : 8, 'w');
    // Then the session tries the dead server again, where it has memory at hand.
    if (i % 1000 == 500) std::this_thread::sleep_for(std::chrono::milliseconds(600));
    const Status put = session->Put(NumberKey(kLoaded + i), value);
    if (!put && failed++ < 3) ADD_FAILURE() << i << ": " << put.error().ToString();
  }
  EXPECT_EQ(failed, 0u) << "of " << kInserts;
  for (uint64_t i = 0; i < kInserts; ++i) {
    ASSERT_TRUE(session->Get(NumberKey(kLoaded + i)));
  }
}

// One server has no memory left and the other is unreachable: the error reports both.
TEST_F(OtherMemoryTest, WhereAllOthersAreFullEachSaysWhy) {
  TestCluster cluster(Options());
  TestClient client(cluster, {10'000, uint64_t{1} << 20});
  const std::unique_ptr<OpenSession> session = client.NewSession();
  ASSERT_TRUE(session->Put(NumberKey(0), "12345678"));
  cluster.Kill(kOther);
  const std::string value(uint64_t{100} << 10, 'v');
  Status put = Ok();
  for (uint64_t i = 0; put && i < 1000; ++i) put = session->Put(NumberKey(i), value);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kNodeUnreachable);
  const std::string& said = put.error().message;
  EXPECT_EQ(said.find("memory server 1 at "), 0u) << said;
  EXPECT_NE(said.find("no remote memory for "), std::string::npos) << said;
  EXPECT_NE(said.find("; memory server 0: "), std::string::npos) << said;
  EXPECT_EQ(said.find("delete keys"), std::string::npos) << said;
}

}  // namespace
}  // namespace gossamer
