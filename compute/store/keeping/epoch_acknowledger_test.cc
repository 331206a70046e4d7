#include "compute/store/keeping/epoch_acknowledger.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/fabric/open/open_port.h"
#include "compute/session/testing/fake_lease_server.h"

namespace gossamer {
namespace {

constexpr ServerId kServer{0};
constexpr ServerId kOther{1};

class EpochAcknowledgerTest : public ::testing::Test {
 protected:
  static std::unique_ptr<ComputePort> NewPort(FakeLeaseServer& server) {
    ComputePortOptions options;
    options.client_uuid = 77;
    auto port = OpenComputePort(FabricKind::kShm, options).value();
    EXPECT_TRUE(port->Connect(kServer, server.port().address()));
    return port;
  }
  // Tends for longer than any number of rounds takes that are due. Returns how many have ended.
  int EndedRounds() {
    int rounds = 0;
    for (int i = 0; i < 100; ++i) {
      rounds += epochs_.Tend(scheduler_) ? 1 : 0;
      do {
        scheduler_.RunOnce();
      } while (epochs_.is_giving_back());
    }
    return rounds;
  }
  bool HasCachedRoot() const { return store_.cache.root().word() != 0; }
  // An operation has removed a block of another compute server from the tree.
  void FreeAnothersBlock(ServerId server) {
    ServerInfo info;
    info.id = server;
    store_.servers.Add(info);
    Registration registration;
    registration.lease = {ComputeId{7}, 1};
    store_.allocator.Registered(server, registration);
    const BlockRef block{BlockPtr(server, 1 << 20, 5).word(), 100, 0};
    store_.allocator.FreeBlocks({&block, 1}, scheduler_.Now(), store_.allocator.leases());
  }
  // The lock of a node on the server stays unsettled.
  void Orphan(ServerId server) {
    OrphanedLocks::Orphan orphan;
    orphan.place.server = server;
    store_.orphans.Add(std::move(orphan));
  }

  FakeLeaseServer server_{0};
  FakeLeaseServer other_{0};
  std::unique_ptr<ComputePort> port_ = NewPort(server_);
  std::unique_ptr<Endpoint> endpoint_ = port_->NewEndpoint().value();
  Scheduler scheduler_{*endpoint_};
  StoreEvents events_;
  StoreState store_{StoreParameters{}, TreeOptions{}, events_};
  EpochAcknowledger epochs_{store_};
};

TEST_F(EpochAcknowledgerTest, TheEpochInWhichALeaseBeganNeedsNoRound) {
  store_.cache.SetRoot(RootWord(RemotePtr(kServer, 4096, 0), 1));
  epochs_.Learn(kServer, 5, 5);
  EXPECT_EQ(epochs_.AcknowledgedTo(kServer), 5u);
  EXPECT_FALSE(epochs_.is_busy());
  EXPECT_EQ(EndedRounds(), 0);
  EXPECT_TRUE(HasCachedRoot());
}

TEST_F(EpochAcknowledgerTest, ALaterEpochIsAcknowledgedOnceTheCacheIsEmptied) {
  store_.cache.SetRoot(RootWord(RemotePtr(kServer, 4096, 0), 1));
  epochs_.Learn(kServer, 6, 5);
  EXPECT_TRUE(epochs_.is_busy());
  EXPECT_EQ(EndedRounds(), 1);
  EXPECT_EQ(epochs_.AcknowledgedTo(kServer), 6u);
  EXPECT_FALSE(HasCachedRoot());
}

TEST_F(EpochAcknowledgerTest, ARunningOperationHoldsItBack) {
  RunningOperations::OfSession session(store_.running);
  epochs_.Learn(kServer, 6, 5);
  {
    const RunningOperations::Scope scope(session);
    EXPECT_EQ(EndedRounds(), 0);
    EXPECT_EQ(epochs_.AcknowledgedTo(kServer), 5u);
  }
  EXPECT_EQ(EndedRounds(), 1);
  EXPECT_EQ(epochs_.AcknowledgedTo(kServer), 6u);
}

// An orphaned lock may stay for long: rounds that cannot acknowledge anything would empty the cache
// again and again.
TEST_F(EpochAcknowledgerTest, NoRoundsForAServerWithAnOrphanedLock) {
  Orphan(kServer);
  epochs_.Learn(kServer, 6, 5);
  EXPECT_FALSE(epochs_.is_busy());
  EXPECT_EQ(EndedRounds(), 0);

  epochs_.Learn(kOther, 3, 2);
  EXPECT_EQ(EndedRounds(), 1);
  EXPECT_EQ(epochs_.AcknowledgedTo(kOther), 3u);
  EXPECT_EQ(epochs_.AcknowledgedTo(kServer), 5u);
}

// Rule G2. There is no queue pair to the server yet.
TEST_F(EpochAcknowledgerTest, MemoryThatCouldNotBeSentHoldsItBack) {
  FreeAnothersBlock(kServer);
  FreeAnothersBlock(kOther);
  epochs_.Learn(kServer, 6, 5);
  epochs_.Learn(kOther, 3, 2);
  EXPECT_EQ(EndedRounds(), 1);
  EXPECT_EQ(epochs_.AcknowledgedTo(kServer), 6u);
  EXPECT_EQ(epochs_.AcknowledgedTo(kOther), 2u);
  EXPECT_FALSE(epochs_.is_busy()) << "rounds would empty the cache in vain";
  EXPECT_EQ(server_.releases(), 1);

  ASSERT_TRUE(port_->Connect(kOther, other_.port().address()));
  ASSERT_TRUE(endpoint_->Attach(kOther));
  scheduler_.Spawn(epochs_.GiveBackOverdue(scheduler_, kOther));
  scheduler_.RunUntil(0);
  EXPECT_EQ(other_.releases(), 1);
  EXPECT_EQ(EndedRounds(), 1);
  EXPECT_EQ(epochs_.AcknowledgedTo(kOther), 3u);
}

}  // namespace
}  // namespace gossamer
