// What the allocator forgets with a lease (rule U4); the rest of it is tested with the tree.
#include "compute/tree/remote_allocator.h"

#include <gtest/gtest.h>

#include <set>

#include "compute/tree/testing/test_cluster.h"

namespace gossamer {
namespace {

constexpr ServerId kServer{0};

class RemoteAllocatorTest : public ::testing::Test {
 protected:
  RemotePtr Node() {
    return scheduler().Run(allocator().AllocateNode(scheduler(), kServer, wire_, lost_)).value();
  }
  BlockPtr Block() {
    return scheduler().Run(allocator().AllocateBlock(scheduler(), 100, wire_, lost_)).value();
  }
  RemoteAllocator& allocator() { return client_.shared().allocator; }
  Scheduler& scheduler() { return session_->tree().scheduler(); }
  Lease lease() { return client_.shared().servers.Find(kServer)->lease; }
  static Lease Next(Lease lease) { return {lease.compute, lease.incarnation + 1}; }

  TestCluster cluster_{ClusterOptions{}};
  TestClient client_{cluster_};
  std::unique_ptr<OpenSession> session_ = client_.NewSession();
  WireCounts wire_;
  std::optional<ServerId> lost_;
};

TEST_F(RemoteAllocatorTest, ANewLeaseForgetsTheMemoryOfTheOldOne) {
  const RemotePtr node = Node();
  const RemotePtr spare = Node();
  const BlockPtr block = Block();
  allocator().ReturnNode(spare);
  allocator().FreeBlock({block.word(), 100, 0}, scheduler().Now() - std::chrono::hours(1));
  const uint64_t chunk = client_.shared().servers.Find(kServer)->chunk_bytes;
  allocator().Abandon(kServer, Next(lease()));
  std::set<uint64_t> chunks;
  for (int i = 0; i < 20; ++i) chunks.insert(Node().offset() / chunk);
  EXPECT_FALSE(chunks.contains(node.offset() / chunk));
  EXPECT_NE(Block().offset() / chunk, block.offset() / chunk);
}

TEST_F(RemoteAllocatorTest, ANodeOfAnOldLeaseIsNotTakenBack) {
  const RemotePtr old = Node();
  allocator().Abandon(kServer, Next(lease()));
  const RemotePtr fresh = Node();
  allocator().ReturnNode(old);
  EXPECT_NE(Node(), old);
  allocator().ReturnNode(fresh);
  EXPECT_EQ(Node(), fresh);
}

TEST_F(RemoteAllocatorTest, TheSameLeaseOrAnOlderOneForgetsNothing) {
  const Lease first = lease();
  allocator().Abandon(kServer, first);
  const Lease third = Next(Next(first));
  allocator().Abandon(kServer, third);
  const RemotePtr node = Node();
  allocator().ReturnNode(node);
  allocator().Abandon(kServer, third);
  allocator().Abandon(kServer, Next(first));
  EXPECT_EQ(Node(), node);
}

}  // namespace
}  // namespace gossamer
