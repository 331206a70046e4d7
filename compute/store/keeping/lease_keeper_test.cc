#include "compute/store/keeping/lease_keeper.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <optional>
#include <thread>

#include "common/fabric/open/open_port.h"
#include "compute/node/store_state.h"
#include "compute/session/control_client.h"
#include "compute/session/registration.h"
#include "compute/session/testing/fake_lease_server.h"

namespace gossamer {
namespace {

constexpr uint64_t kUuid = 77;
constexpr std::chrono::milliseconds kQuarter{250};

ServerInfo Info(uint16_t id, FakeLeaseServer& server, uint32_t lease_ms) {
  ServerInfo info;
  info.id = ServerId{id};
  info.address = server.port().address();
  info.lease_ms = lease_ms;
  return info;
}

std::unique_ptr<ComputePort> NewPort(const Servers& servers) {
  ComputePortOptions options;
  options.client_uuid = kUuid;
  auto port = OpenComputePort(FabricKind::kShm, options).value();
  for (const ServerInfo* server : servers.All()) {
    EXPECT_TRUE(port->Connect(server->id, server->address));
  }
  return port;
}

// Two servers whose leases expire, and one whose leases do not, in virtual time.
class LeaseKeeperTest : public ::testing::Test {
 protected:
  LeaseKeeperTest() {
    servers_.Add(Info(0, first_, 1000));
    servers_.Add(Info(1, second_, 1000));
    servers_.Add(Info(2, other_, 0));
    port_ = NewPort(servers_);
    endpoint_ = std::make_unique<ClockedEndpoint>(port_->NewEndpoint().value());
    scheduler_ = std::make_unique<Scheduler>(*endpoint_);
    scheduler_->Spawn(keeper_.Keep(*scheduler_));
  }
  ~LeaseKeeperTest() override {
    keeper_.Stop();
    Pass(kQuarter);
    scheduler_->RunUntil(0);
  }
  std::optional<Lease> LeaseOfFirst() { return allocator_.GrantedOn(ServerId{0}).lease; }
  // Passes time in steps so small that every due request is sent and answered.
  void Pass(std::chrono::milliseconds time) {
    for (const auto until = endpoint_->Now() + time; endpoint_->Now() < until;) {
      endpoint_->Pass(std::chrono::milliseconds(1));
      for (int i = 0; i < 20; ++i) scheduler_->RunOnce();
      while (scheduler_->running() > 1) {  // all but the keeper itself: a server has to answer
        scheduler_->RunOnce();
        std::this_thread::yield();
      }
    }
  }

  FakeLeaseServer first_{1000};
  FakeLeaseServer second_{1000};
  FakeLeaseServer other_{0};
  Servers servers_;
  std::unique_ptr<ComputePort> port_;
  std::unique_ptr<ClockedEndpoint> endpoint_;
  std::unique_ptr<Scheduler> scheduler_;
  StoreEvents events_;
  RemoteAllocator allocator_{servers_, events_, 1024, 1};
  LeaseKeeper keeper_{servers_, &allocator_};
};

TEST_F(LeaseKeeperTest, RenewsFourTimesALeaseWhereLeasesExpire) {
  Pass(std::chrono::milliseconds(110));
  EXPECT_EQ(first_.registrations(), 1);
  EXPECT_EQ(other_.registrations(), 0) << "most processes end before that";
  Pass(40 * kQuarter);
  EXPECT_EQ(first_.registrations(), 1);
  EXPECT_EQ(second_.registrations(), 1);
  EXPECT_GE(first_.renewals(), 38);
  EXPECT_LE(first_.renewals(), 41);
  EXPECT_GE(second_.renewals(), 38);
  // Where leases do not expire, it learns of epochs once a second.
  EXPECT_EQ(other_.registrations(), 1);
  EXPECT_GE(other_.renewals(), 8);
  EXPECT_LE(other_.renewals(), 11);
}

TEST_F(LeaseKeeperTest, RegistersAnewAfterAFence) {
  Pass(4 * kQuarter);
  EXPECT_EQ(LeaseOfFirst(), (Lease{ComputeId{7}, 1}));
  first_.port().Fence(kUuid);
  while (first_.gone() == 0) std::this_thread::yield();
  Pass(8 * kQuarter);
  EXPECT_EQ(first_.registrations(), 2);
  EXPECT_GE(first_.renewals(), 6);
  EXPECT_EQ(second_.registrations(), 1);
  // Memory of the first lease is abandoned, even though no session may have noticed (rule U4).
  EXPECT_EQ(LeaseOfFirst(), (Lease{ComputeId{7}, 2}));
}

TEST_F(LeaseKeeperTest, ALostServerDoesNotKeepItFromTheOthers) {
  Pass(4 * kQuarter);
  second_.port().Stop();
  const int before = first_.renewals();
  Pass(40 * kQuarter);
  EXPECT_GE(first_.renewals(), before + 38);
}

// Rule G4: renewals follow one another without a pause, however much waits.
TEST_F(LeaseKeeperTest, AllThatWaitsIsGivenUpAtOnce) {
  constexpr uint32_t kPieces = 10'000;
  Pass(kQuarter);
  const int renewals = first_.renewals();
  first_.SetWaiting(kPieces);
  Pass(kQuarter + std::chrono::milliseconds(10));
  EXPECT_EQ(first_.waiting(), 0u);
  EXPECT_EQ(first_.taken_offers(),
            (kPieces + control::RenewReply::kMaxRanges - 1) / control::RenewReply::kMaxRanges);
  EXPECT_LE(first_.renewals(), renewals + first_.taken_offers() + 2);
}

// A server that refuses is not asked again and again.
TEST_F(LeaseKeeperTest, WhatTheServerDoesNotTakeBackWaitsForTheNextRenewal) {
  Pass(kQuarter);
  first_.Refuse(false, true);
  first_.SetWaiting(10'000);
  Pass(4 * kQuarter);
  EXPECT_GE(first_.taken_offers(), 3);
  EXPECT_LE(first_.taken_offers(), 5);
}

TEST(LeaseKeeperThread, RenewsUntilItIsStopped) {
  FakeLeaseServer first(40);
  FakeLeaseServer late(40);
  Servers servers;
  servers.Add(Info(0, first, 40));
  LeaseKeeper keeper(servers);
  ASSERT_TRUE(keeper.Start(NewPort({})));
  while (first.renewals() < 3) std::this_thread::yield();
  servers.Add(Info(1, late, 40));
  keeper.Wake();
  while (late.renewals() < 3) std::this_thread::yield();
  first.port().Fence(kUuid);
  while (first.registrations() < 2) std::this_thread::yield();
  keeper.Stop();
  const int renewals = first.renewals();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(first.renewals(), renewals);
}

// What it has taken to be given back would be lost (rule G2).
TEST(LeaseKeeperThread, EndsOnceMemoryUnderWayIsGivenBack) {
  FakeLeaseServer server(0);
  server.SetEpoch(1);
  server.HoldReleases(true);
  StoreEvents events;
  StoreState store(StoreParameters{}, TreeOptions{}, events);
  store.servers.Add(Info(0, server, 0));
  Registration registration;
  registration.lease = {ComputeId{7}, 1};
  store.allocator.Registered(ServerId{0}, registration);
  constexpr int kRequests = 3;
  for (uint64_t i = 0; i < kRequests * control::ReleaseRequest::kMaxRanges; ++i) {
    const BlockRef anothers{BlockPtr(ServerId{0}, (1 << 20) + i * 256, 5).word(), 100, 0};
    store.allocator.FreeBlocks({&anothers, 1}, Scheduler::Clock::now(), store.allocator.leases());
  }
  EpochAcknowledger epochs(store);
  LeaseKeeper keeper(store.servers, &store.allocator, nullptr, &epochs);
  ASSERT_TRUE(keeper.Start(NewPort({})));
  keeper.Hurry();
  // Until the epoch is heard of, and the memory on its way.
  while (!server.IsHoldingRelease()) {
    std::this_thread::yield();
    keeper.Hurry();
  }
  std::thread stops([&keeper] { keeper.Stop(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // The sooner, the less it tests.
  server.HoldReleases(false);
  stops.join();
  EXPECT_EQ(server.releases(), kRequests);
  EXPECT_TRUE(store.allocator.HasReleasedAll(ServerId{0}));
}

TEST(Registration, TellsTheLeaseOfTheQueuePair) {
  FakeLeaseServer server(40);
  Servers servers;
  servers.Add(Info(0, server, 40));
  const auto port = NewPort(servers);
  const auto endpoint = port->NewEndpoint().value();
  Scheduler scheduler(*endpoint);
  const auto first = scheduler.Run(RegisterOver(*endpoint, ServerId{0}));
  ASSERT_TRUE(first) << first.error().ToString();
  EXPECT_EQ(first.value().lease, (Lease{ComputeId{7}, 1}));
  EXPECT_EQ(first.value().lease_ms, 40u);
  server.port().Fence(kUuid);
  while (server.gone() == 0) std::this_thread::yield();
  const auto broken = scheduler.Run(RegisterOver(*endpoint, ServerId{0}));
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::kNodeUnreachable);
  ASSERT_TRUE(endpoint->Reconnect(ServerId{0}));
  EXPECT_EQ(scheduler.Run(RegisterOver(*endpoint, ServerId{0})).value().lease.incarnation, 2u);
}

// While this lives, the machine gives no thread: its stack would not fit into the address space.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 46);
    EXPECT_EQ(pthread_setattr_default_np(&huge), 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() { pthread_setattr_default_np(&before_); }

 private:
  pthread_attr_t before_;
};

TEST(LeaseKeeperWithoutAThread, IsAnErrorAndCanStartLater) {
  FakeLeaseServer server(10);
  Servers servers;
  servers.Add(Info(0, server, 10));
  LeaseKeeper keeper(servers);
  {
    const NoThreads none;
    const Status started = keeper.Start(NewPort(servers));
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, Code::kUnsupported) << started.error().ToString();
  }
  ASSERT_TRUE(keeper.Start(NewPort(servers)));
  while (server.renewals() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace gossamer
