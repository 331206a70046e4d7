// The allocator with memory of ended leases and of others (rule U4), and with full or lost servers.
// The tree's tests cover the rest.
#include "compute/allocation/remote_allocator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "common/fabric/endpoint_decorator.h"
#include "common/fabric/open/open_port.h"
#include "compute/session/testing/fake_lease_server.h"

namespace gossamer {
namespace {

constexpr uint64_t kUuid = 77;
constexpr uint32_t kNodeBytes = 1024;
constexpr uint32_t kBlockLength = 100;
constexpr ServerId kFirst{0};
constexpr ServerId kSecond{1};

// Control calls get no answer while they are `lost`; the queue pairs work.
class UnansweredCalls final : public EndpointDecorator {
 public:
  explicit UnansweredCalls(std::unique_ptr<Endpoint> endpoint)
      : EndpointDecorator(std::move(endpoint)) {}

  using EndpointDecorator::Post;
  void Post(ControlCall& call) override {
    if (!lost) return below().Post(call);
    call.status = VerbStatus::kUnknown;
    lost_.push_back(&call);
  }
  size_t Poll() override {
    for (ControlCall* const call : std::exchange(lost_, {})) call->completion->CountDown();
    return below().Poll();
  }

  bool lost = false;

 private:
  std::vector<ControlCall*> lost_;
};

class RemoteAllocatorTest : public ::testing::Test {
 protected:
  RemoteAllocatorTest() {
    ComputePortOptions options;
    options.client_uuid = kUuid;
    options.connection_timeout_ms = 200;
    port_ = OpenComputePort(FabricKind::kShm, options).value();
    for (const ServerId id : {kFirst, kSecond}) {
      ServerInfo info;
      info.id = id;
      info.address = Server(id).port().address();
      info.chunk_bytes = FakeLeaseServer::kExtentBytes;
      servers_.Add(info);
      EXPECT_TRUE(port_->Connect(id, info.address));
    }
    endpoint_ = port_->NewEndpoint().value();
    scheduler_ = std::make_unique<Scheduler>(*endpoint_);
    for (const ServerId id : {kFirst, kSecond}) Register(id);
  }
  FakeLeaseServer& Server(ServerId id) { return id == kFirst ? first_ : second_; }
  void Register(ServerId id) {
    const auto registered = scheduler_->Run(RegisterOver(*endpoint_, id));
    ASSERT_TRUE(registered) << registered.error().ToString();
    allocator_.Registered(id, registered.value());
  }
  // The server ends the lease, and this session reconnects. The next lease begins with the next
  // message.
  void EndLease(ServerId id) {
    const int before = Server(id).gone();
    Server(id).port().Fence(kUuid);
    while (Server(id).gone() == before) std::this_thread::yield();
    ASSERT_TRUE(endpoint_->Reconnect(id));
  }
  Result<Allocated<RemotePtr>> Allocate(ServerId near = kFirst, NodeKind kind = NodeKind::kLeaf) {
    lost_.reset();
    return scheduler_->Run(allocator_.AllocateNode({*scheduler_, wire_, lost_}, near, kind));
  }
  Task<void> AllocateOver(Scheduler& scheduler) {
    WireCounts wire;
    std::optional<ServerId> lost;
    const auto node =
        co_await allocator_.AllocateNode({scheduler, wire, lost}, kFirst, NodeKind::kLeaf);
    if (node) ++allocated_;
  }
  // Allocates a node that may be reachable.
  RemotePtr Node(ServerId near = kFirst) {
    Allocated<RemotePtr> node = Allocate(near).value();
    node.Linked();
    return node.pointer();
  }
  BlockPtr Block() {
    lost_.reset();
    Allocated<BlockPtr> block =
        scheduler_->Run(allocator_.AllocateBlock({*scheduler_, wire_, lost_}, {}, kBlockLength))
            .value();
    block.Linked();
    return block.pointer();
  }
  void FreeLongAgo(BlockPtr block) {
    const BlockRef freed{block.word(), kBlockLength, 0};
    allocator_.FreeBlocks({&freed, 1}, scheduler_->Now() - std::chrono::hours(1),
                          allocator_.leases());
  }
  // Frees a block of another compute server.
  void FreeAnothers(ServerId server, uint64_t number) {
    FreeLongAgo(BlockPtr(server, (1 << 20) + number * 128, 5));
  }
  // One that has no queue pair to other servers.
  std::unique_ptr<Endpoint> AnotherEndpoint(ServerId server) {
    ComputePortOptions options;
    options.client_uuid = kUuid;
    other_port_ = OpenComputePort(FabricKind::kShm, options).value();
    EXPECT_TRUE(other_port_->Connect(server, Server(server).port().address()));
    return other_port_->NewEndpoint().value();
  }
  void GiveBackReturns() { GiveBackReturns(*scheduler_); }
  void GiveBackReturns(Scheduler& scheduler) {
    scheduler.Spawn(allocator_.GiveBackReturns(scheduler));
    scheduler.RunUntil(0);
  }
  bool MayLink(const AllocationStamp& stamp, ServerId from) {
    LinkedMemory memory;
    memory.Add(stamp);
    return allocator_.MayLink(memory, from);
  }

  FakeLeaseServer first_{0};
  FakeLeaseServer second_{0};
  Servers servers_;
  std::unique_ptr<ComputePort> port_;
  std::unique_ptr<ComputePort> other_port_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Scheduler> scheduler_;
  StoreEvents events_;
  RemoteAllocator allocator_{servers_, events_, kNodeBytes, 1};
  WireCounts wire_;
  std::optional<ServerId> lost_;
  std::atomic<int> allocated_ = 0;  // by AllocateOver
};

TEST_F(RemoteAllocatorTest, BlocksTakenTogetherAreFreedOnesAndThenOneBehindTheOther) {
  const BlockPtr used = Block();
  FreeLongAgo(used);
  constexpr uint32_t kBytes = BlockBytes(kBlockLength);
  // More than the extent has.
  std::vector<RemoteAllocator::BlockWish> wishes(FakeLeaseServer::kExtentBytes / kBytes + 2);
  for (RemoteAllocator::BlockWish& wish : wishes) wish.length = kBlockLength;
  const auto take = [&](size_t from, size_t count) {
    allocator_.TakeBlocks(used.server(), scheduler_->Now(), std::span(wishes).subspan(from, count));
  };
  take(0, 4);
  ASSERT_TRUE(wishes[0].memory && wishes[3].memory);
  EXPECT_EQ(wishes[0].memory.pointer(), used.NextGeneration());
  take(4, wishes.size() - 4);
  const size_t taken = FakeLeaseServer::kExtentBytes / kBytes;
  for (size_t i = 1; i < taken; ++i) {
    ASSERT_TRUE(wishes[i].memory) << i;
    EXPECT_EQ(wishes[i].memory.pointer().offset(), used.offset() + i * kBytes);
  }
  EXPECT_FALSE(wishes[taken].memory);
  EXPECT_FALSE(wishes[taken + 1].memory);
}

TEST_F(RemoteAllocatorTest, ANewLeaseForgetsTheMemoryOfTheOldOne) {
  const RemotePtr node = Node();
  Allocate().value().GiveBack();
  std::set<BlockPtr> freed;
  for (int i = 0; i < 4; ++i) freed.insert(Block());
  for (const BlockPtr block : freed) FreeLongAgo(block);
  for (const ServerId id : {kFirst, kSecond}) {
    EndLease(id);
    Register(id);
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_GE(Node().offset(), node.offset() + FakeLeaseServer::kExtentBytes);
    EXPECT_FALSE(freed.contains(Block()));
  }
}

// However they came to be so many.
TEST_F(RemoteAllocatorTest, OfManyFreedNodesHalfGoBack) {
  constexpr size_t kMost = 2048;
  const RemotePtr last = Node();
  std::vector<Allocated<RemotePtr>> unused;
  for (size_t i = 0; i < 2 * kMost + 100; ++i) unused.push_back(Allocate(last.server()).value());
  for (Allocated<RemotePtr>& node : unused) node.GiveBack();
  EXPECT_TRUE(allocator_.FreeNode(last, allocator_.leases()));
}

TEST_F(RemoteAllocatorTest, ANodeOfAnOldLeaseIsNotTakenBack) {
  Allocated<RemotePtr> old = Allocate().value();
  const AllocationStamp old_stamp = old.stamp();
  EndLease(kFirst);
  Register(kFirst);
  Allocated<RemotePtr> fresh = Allocate().value();
  old.GiveBack();
  EXPECT_NE(Node(), old.pointer());
  fresh.GiveBack();
  EXPECT_EQ(Node(), fresh.pointer());
  // The node's memory was swept and granted to this compute server again.
  const RemotePtr swept = Node();
  Allocated<RemotePtr>(allocator_, swept, kNodeBytes, old_stamp).GiveBack();
  EXPECT_NE(Node(), swept);
}

TEST_F(RemoteAllocatorTest, TheSameLeaseOrAnOlderOneForgetsNothing) {
  const Registration first = scheduler_->Run(RegisterOver(*endpoint_, kFirst)).value();
  EndLease(kFirst);
  Register(kFirst);
  const Allocated<RemotePtr> node = Allocate().value();
  Register(kFirst);
  allocator_.Registered(kFirst, first);
  EXPECT_TRUE(MayLink(node.stamp(), kFirst));
}

TEST_F(RemoteAllocatorTest, BlocksOfOthersGoBackToTheirMemoryServer) {
  const BlockPtr own = Block();
  const uint64_t others = own.offset() + 8 * FakeLeaseServer::kExtentBytes;
  const auto free_another = [&](uint64_t number) {
    const BlockPtr block(own.server(), others + number * 256, 5);
    const BlockRef freed{block.word(), kBlockLength, 0};
    return allocator_.FreeBlocks({&freed, 1}, scheduler_->Now(), allocator_.leases());
  };
  constexpr uint64_t kMany = control::ReleaseRequest::kMaxRanges;
  for (uint64_t i = 1; i < kMany; ++i) EXPECT_FALSE(free_another(i));
  EXPECT_TRUE(free_another(kMany)) << "as many as one message takes";
  GiveBackReturns();
  EXPECT_EQ(Server(own.server()).releases(), 1);
  const control::ReleaseRequest released = Server(own.server()).released();
  ASSERT_EQ(released.count, kMany);
  EXPECT_EQ(released.ranges[0].offset, others + 256);
  EXPECT_EQ(released.ranges[0].bytes, BlockBytes(kBlockLength));
  EXPECT_EQ(released.ranges[0].generation, 5);
  GiveBackReturns();
  EXPECT_EQ(Server(own.server()).releases(), 1) << "nothing is left";
  FreeLongAgo(own);
  EXPECT_EQ(Block(), own.NextGeneration());
}

TEST_F(RemoteAllocatorTest, NeighboursGoBackAsOne) {
  const BlockPtr own = Block();
  const uint64_t others = own.offset() + 8 * FakeLeaseServer::kExtentBytes;
  for (const uint64_t number : {3, 1, 2, 5}) {
    FreeLongAgo(BlockPtr(own.server(), others + number * 128, 5));
  }
  GiveBackReturns();
  const control::ReleaseRequest released = Server(own.server()).released();
  ASSERT_EQ(released.count, 2u);
  EXPECT_EQ(released.ranges[0].offset, others + 128);
  EXPECT_EQ(released.ranges[0].bytes, 384u);
  EXPECT_EQ(released.ranges[1].offset, others + 640);
}

// As over the endpoint of the lease keeper, which connects to a server when that is due.
TEST_F(RemoteAllocatorTest, WhatCannotBeSentIsKept) {
  for (const ServerId id : {kFirst, kSecond}) FreeAnothers(id, 1);
  const std::unique_ptr<Endpoint> endpoint = AnotherEndpoint(kFirst);
  Scheduler scheduler(*endpoint);
  GiveBackReturns(scheduler);
  EXPECT_EQ(first_.releases(), 1);
  EXPECT_FALSE(allocator_.HasOverdueReturns(kFirst));
  EXPECT_TRUE(allocator_.HasOverdueReturns(kSecond));
  EXPECT_FALSE(allocator_.HasReleasedAll(kSecond));

  GiveBackReturns();
  EXPECT_EQ(first_.releases(), 1);
  EXPECT_EQ(second_.releases(), 1);
  EXPECT_FALSE(allocator_.HasOverdueReturns(kSecond));
  EXPECT_TRUE(allocator_.HasReleasedAll(kSecond));
}

// The session stays with one server only: it must not ask again and again whether it can send.
TEST_F(RemoteAllocatorTest, ReturnsThatCannotBeSentAreNotDue) {
  for (uint64_t i = 0; i < control::ReleaseRequest::kMaxRanges; ++i) FreeAnothers(kSecond, 2 * i);
  EXPECT_TRUE(allocator_.AreReturnsDue(*endpoint_));
  EXPECT_FALSE(allocator_.AreReturnsDue(*AnotherEndpoint(kFirst)));
}

TEST_F(RemoteAllocatorTest, AReturnThatGotNoAnswerIsUnderWayWhereTheQueuePairWorks) {
  UnansweredCalls endpoint(AnotherEndpoint(kFirst));
  Scheduler scheduler(endpoint);
  endpoint.lost = true;
  constexpr uint64_t kMany = control::ReleaseRequest::kMaxRanges + 1;
  for (uint64_t i = 0; i < kMany; ++i) FreeAnothers(kFirst, 2 * i);
  GiveBackReturns(scheduler);
  const uint64_t carrier = endpoint.WorkingQueuePairId(kFirst);
  ASSERT_NE(carrier, 0u);
  EXPECT_EQ(allocator_.UnknownReturn(kFirst), carrier);
  EXPECT_TRUE(allocator_.HasOverdueReturns(kFirst)) << "the rest is not sent behind it";
  allocator_.Destroyed(kFirst, carrier);
  EXPECT_EQ(allocator_.UnknownReturn(kFirst), std::nullopt);

  endpoint.lost = false;
  GiveBackReturns(scheduler);
  EXPECT_FALSE(allocator_.HasOverdueReturns(kFirst));
  EXPECT_FALSE(allocator_.HasReleasedAll(kFirst))
      << "nobody knows whether the first request arrived";
}

// Rule G3.
TEST_F(RemoteAllocatorTest, MemoryThatMayBeReachableIsLeftBehindUnlessItIsKnownToBe) {
  {
    Allocated<RemotePtr> node = Allocate().value();
    node.Posted();
    node.Linked();
  }
  EXPECT_TRUE(allocator_.HasReleasedAll(kFirst));
  {
    Allocated<RemotePtr> node = Allocate().value();
    node.Posted();
    node.GiveBack();
  }
  EXPECT_TRUE(allocator_.HasReleasedAll(kFirst));
  {
    Allocated<RemotePtr> node = Allocate().value();
    node.Posted();
  }
  EXPECT_FALSE(allocator_.HasReleasedAll(kFirst));
}

TEST_F(RemoteAllocatorTest, WhatTheServerRefusesIsLeftBehind) {
  first_.Refuse(false, true);
  FreeAnothers(kFirst, 1);
  GiveBackReturns();
  EXPECT_FALSE(allocator_.HasReleasedAll(kFirst));
}

TEST_F(RemoteAllocatorTest, ABlockOfAnOldLeaseGoesBackToo) {
  const BlockPtr old = Block();
  EndLease(old.server());
  Register(old.server());
  FreeLongAgo(old);
  for (int i = 0; i < 10; ++i) EXPECT_NE(Block(), old.NextGeneration());
  GiveBackReturns();
  EXPECT_EQ(Server(old.server()).released().ranges[0].offset, old.offset());
}

TEST_F(RemoteAllocatorTest, WhatWasAllocatedUnderAnEndedLeaseMayNotBeLinked) {
  const Allocated<RemotePtr> node = Allocate(kFirst).value();
  EXPECT_TRUE(MayLink(node.stamp(), kFirst));
  EXPECT_TRUE(MayLink(node.stamp(), kSecond));
  // A server that ends a lease has all others end theirs before it sweeps: a new lease there means
  // that it may have swept.
  EndLease(kSecond);
  Register(kSecond);
  EXPECT_TRUE(MayLink(node.stamp(), kFirst));
  EXPECT_FALSE(MayLink(node.stamp(), kSecond));
  EXPECT_TRUE(MayLink(Allocate(kFirst).value().stamp(), kSecond));
  EndLease(kFirst);
  Register(kFirst);
  EXPECT_FALSE(MayLink(node.stamp(), kFirst));
}

// Both servers have fenced the old registration, but only the first one's fence is known here. A
// sweeper may take memory that the second granted.
TEST_F(RemoteAllocatorTest, WithANewLeaseElsewhereMemoryOfAnEndedOneIsForgotten) {
  const RemotePtr old = Node(kSecond);
  ASSERT_EQ(old.server(), kSecond);
  const BlockPtr freed = Block();
  FreeLongAgo(freed);
  for (const ServerId id : {kSecond, kFirst}) EndLease(id);
  Register(kFirst);
  const Allocated<RemotePtr> node = Allocate(kSecond).value();
  ASSERT_EQ(node.pointer().server(), kSecond);
  EXPECT_GE(node.pointer().offset(), old.offset() + FakeLeaseServer::kExtentBytes);
  EXPECT_TRUE(MayLink(node.stamp(), kFirst));
  for (int i = 0; i < 10; ++i) EXPECT_NE(Block(), freed.NextGeneration());
}

TEST_F(RemoteAllocatorTest, WithANewLeaseElsewhereMemoryIsConfirmedOnceAndUsedOn) {
  const RemotePtr old = Node(kSecond);
  EndLease(kFirst);
  Register(kFirst);
  const uint64_t sends = wire_.sends;
  const Allocated<RemotePtr> node = Allocate(kSecond).value();
  EXPECT_EQ(node.pointer().offset(), old.offset() + kNodeBytes);
  EXPECT_TRUE(MayLink(node.stamp(), kFirst));
  EXPECT_EQ(Node(kSecond).offset(), old.offset() + 2 * kNodeBytes);
  EXPECT_EQ(wire_.sends, sends + 1);
}

TEST_F(RemoteAllocatorTest, AnExtentThatTellsOfANewLeaseIsUsedAndTheOldOnesForgotten) {
  // All nodes go to the first.
  allocator_.Lost(kSecond, scheduler_->Now() + std::chrono::hours(1));
  const Allocated<RemotePtr> old = Allocate().value();
  while (Node().offset() % FakeLeaseServer::kExtentBytes !=
         (kHeapOffset - kNodeBytes) % FakeLeaseServer::kExtentBytes) {
  }
  const int asked = first_.allocations();
  // Another session of this compute server has registered but has not reported it yet.
  EndLease(kFirst);
  const Allocated<RemotePtr> node = Allocate().value();
  EXPECT_EQ(first_.allocations(), asked + 1);
  EXPECT_FALSE(MayLink(old.stamp(), kFirst));
  EXPECT_TRUE(MayLink(node.stamp(), kFirst));
  Register(kFirst);
  EXPECT_TRUE(MayLink(node.stamp(), kFirst));
  EXPECT_EQ(Node().offset(), node.pointer().offset() + kNodeBytes);
}

TEST_F(RemoteAllocatorTest, GoesBackByItselfUntilSomethingIsPosted) {
  const RemotePtr first = Allocate().value().pointer();
  EXPECT_EQ(Node(), first);
  EXPECT_NE(Node(), first);
}

TEST_F(RemoteAllocatorTest, CoroutinesThatRunOutTogetherAskOnce) {
  for (int i = 0; i < 8; ++i) scheduler_->Spawn(AllocateOver(*scheduler_));
  scheduler_->RunUntil(0);
  EXPECT_EQ(Server(kFirst).allocations(), 1);
  EXPECT_EQ(allocated_, 8);
}

TEST_F(RemoteAllocatorTest, ASessionWaitsForTheMemoryThatAnotherThreadsSessionAsksFor) {
  const std::unique_ptr<Endpoint> other_endpoint = port_->NewEndpoint().value();
  Scheduler other(*other_endpoint);
  other.Spawn(AllocateOver(other));  // has asked, and waits for the answer
  std::thread waits([this] {
    scheduler_->Spawn(AllocateOver(*scheduler_));
    scheduler_->RunUntil(0);
  });
  other.RunUntil(0);
  waits.join();
  EXPECT_EQ(Server(kFirst).allocations(), 1);
  EXPECT_EQ(allocated_, 2);
}

TEST_F(RemoteAllocatorTest, ASessionThatIsNotDrivenHoldsUpOthersForAWhileOnly) {
  const std::unique_ptr<Endpoint> other_endpoint = port_->NewEndpoint().value();
  Scheduler other(*other_endpoint);
  other.Spawn(AllocateOver(other));  // has asked, and does not look at the answer
  EXPECT_TRUE(Allocate());
  EXPECT_EQ(Server(kFirst).allocations(), 2);
  other.RunUntil(0);
  EXPECT_EQ(allocated_, 1);
}

TEST_F(RemoteAllocatorTest, WhileOneAsksForOtherComputeServersTheOthersWait) {
  using Refusal = RemoteAllocator::Refusal;
  constexpr std::chrono::milliseconds kPatience{2500};
  RemoteAllocator allocator(servers_, events_, kNodeBytes, 1, kPatience);
  const auto start = scheduler_->Now();
  EXPECT_EQ(allocator.JudgeRefusal(start), Refusal::kAskForOthers);
  EXPECT_EQ(allocator.JudgeRefusal(start), Refusal::kWait);
  EXPECT_EQ(allocator.JudgeRefusal(start + kPatience), Refusal::kFinal);
  const auto later = start + RemoteAllocator::kBetweenWaits;
  EXPECT_EQ(allocator.JudgeRefusal(later), Refusal::kAskForOthers);
  allocator.EndWait();
  EXPECT_EQ(allocator.JudgeRefusal(later), Refusal::kFinal);
}

TEST_F(RemoteAllocatorTest, InternalNodesAreOnServer0WhateverLeavesTake) {
  std::set<ServerId> of_leaves;
  for (int i = 0; i < 1000; ++i) {
    of_leaves.insert(Node(kFirst).server());
    const Allocated<RemotePtr> internal = Allocate(kSecond, NodeKind::kInternal).value();
    ASSERT_EQ(internal.pointer().server(), kFirst);
    Allocate(kSecond).value().GiveBack();
  }
  EXPECT_EQ(of_leaves.size(), 2) << "the first server is the fuller one by then";
}

TEST_F(RemoteAllocatorTest, WhereOneServerIsLostAnotherServes) {
  second_.port().Stop();
  const Allocated<RemotePtr> node = Allocate(kSecond).value();
  EXPECT_EQ(node.pointer().server(), kFirst);
  EXPECT_EQ(lost_, kSecond);
  // The server is left out for a while.
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Node(kSecond).server(), kFirst);
    EXPECT_FALSE(lost_);
    EXPECT_EQ(Block().server(), kFirst);
  }
}

TEST_F(RemoteAllocatorTest, AServerWithoutAQueuePairIsPassedOver) {
  // The server joined after the session began.
  ComputePortOptions options;
  options.client_uuid = kUuid;
  const auto port = OpenComputePort(FabricKind::kShm, options).value();
  ASSERT_TRUE(port->Connect(kFirst, first_.port().address()));
  scheduler_.reset();
  endpoint_ = port->NewEndpoint().value();
  scheduler_ = std::make_unique<Scheduler>(*endpoint_);
  EXPECT_EQ(Node(kSecond).server(), kFirst);
  EXPECT_EQ(lost_, kSecond) << "it needs a queue pair";
  scheduler_.reset();
  endpoint_.reset();  // before its port
}

// Its clock stands still.
class StoppedEndpoint final : public EndpointDecorator {
 public:
  explicit StoppedEndpoint(Endpoint& below) : EndpointDecorator(below), now_(below.Now()) {}
  Clock::time_point Now() const override { return now_; }

 private:
  const Clock::time_point now_;
};

TEST_F(RemoteAllocatorTest, AServerThatWasLostServesAgainOnceItIsRegisteredWith) {
  allocator_.Lost(kSecond, scheduler_->Now() + std::chrono::hours(1));
  EXPECT_EQ(Node(kSecond).server(), kFirst);
  Register(kSecond);
  EXPECT_EQ(Node(kSecond).server(), kSecond);
}

TEST_F(RemoteAllocatorTest, AServerIsLeftOutLongerEachTimeItIsLost) {
  StoppedEndpoint endpoint(*endpoint_);
  Scheduler scheduler(endpoint);
  const auto lose = [&](std::chrono::milliseconds after) {
    allocator_.Lost(kSecond, scheduler.Now() - after);
    Allocated<RemotePtr> node =
        scheduler.Run(allocator_.AllocateNode({scheduler, wire_, lost_}, kSecond, NodeKind::kLeaf))
            .value();
    node.Posted();
    return node.pointer().server() == kFirst;
  };
  EXPECT_TRUE(lose(std::chrono::milliseconds(0)));
  Register(kSecond);
  // The first pause is 500 ms, even if the loss is reported again during it; the second is 1 s.
  EXPECT_FALSE(lose(std::chrono::milliseconds(2000)));
  EXPECT_FALSE(lose(std::chrono::milliseconds(1700)));
  EXPECT_FALSE(lose(std::chrono::milliseconds(1400)));
  EXPECT_TRUE(lose(std::chrono::milliseconds(300)));
}

TEST_F(RemoteAllocatorTest, AServerThatWasLostIsAskedWhereNoOtherHasMemory) {
  first_.Refuse(true, false);
  allocator_.Lost(kSecond, scheduler_->Now());
  EXPECT_EQ(Node(kFirst).server(), kSecond);
}

TEST_F(RemoteAllocatorTest, TheErrorNamesEachServer) {
  first_.Refuse(true, false);
  second_.port().Stop();
  const auto node = Allocate();
  ASSERT_FALSE(node);
  EXPECT_EQ(node.error().code, Code::kNodeUnreachable);
  EXPECT_EQ(lost_, kSecond);
  EXPECT_NE(node.error().message.find("memory server 0"), std::string::npos)
      << node.error().message;
  EXPECT_NE(node.error().message.find("memory server 1"), std::string::npos)
      << node.error().message;
  second_.Refuse(true, false);
}

TEST_F(RemoteAllocatorTest, EachServerGetsItsUnusedMemoryBack) {
  Node(kFirst);
  Node(kSecond);
  for (int i = 0; i < 2; ++i) Block();
  ASSERT_EQ(first_.allocations(), 2);
  ASSERT_EQ(second_.allocations(), 2);
  first_.Refuse(false, true);
  scheduler_->Spawn(allocator_.ReleaseAll(*scheduler_));
  scheduler_->RunUntil(0);
  EXPECT_EQ(first_.releases(), 1);
  EXPECT_EQ(first_.released().count, 2u);
  EXPECT_EQ(second_.releases(), 1);
  EXPECT_EQ(second_.released().count, 2u);
}

TEST_F(RemoteAllocatorTest, WhatWasFreedGoesBackWithTheUnused) {
  const BlockPtr block = Block();
  FreeLongAgo(block);
  Allocated<RemotePtr> node = Allocate(block.server()).value();
  node.GiveBack();
  scheduler_->Spawn(allocator_.ReleaseAll(*scheduler_));
  scheduler_->RunUntil(0);
  const control::ReleaseRequest released = Server(block.server()).released();
  const auto range_at = [&](uint64_t offset) {
    const auto* const range = std::ranges::find(released.ranges, offset, &control::Range::offset);
    return range == std::end(released.ranges) ? control::Range{} : *range;
  };
  // The block, and all that is behind it: none of that was reachable.
  ASSERT_EQ(released.count, 2u);
  const control::Range used = range_at(block.offset());
  EXPECT_EQ(used.bytes, BlockBytes(kBlockLength));
  EXPECT_EQ(used.generation, 0);
  EXPECT_EQ(used.past, control::Past::kUsed);
  const control::Range unused = range_at(block.offset() + used.bytes);
  EXPECT_EQ(unused.past, control::Past::kUnused);
  EXPECT_LE(unused.offset, node.pointer().offset());
  EXPECT_GE(unused.offset + unused.bytes, node.pointer().offset() + kNodeBytes);
}

TEST_F(RemoteAllocatorTest, ADeadServerKeepsNoOtherFromGettingItsMemoryBack) {
  Node(kFirst);
  Node(kSecond);
  first_.port().Stop();
  scheduler_->Spawn(allocator_.ReleaseAll(*scheduler_));
  scheduler_->RunUntil(0);
  EXPECT_EQ(second_.releases(), 1);
}

TEST_F(RemoteAllocatorTest, AnEndpointThatLostItsQueuePairGivesMemoryBack) {
  Node(kFirst);
  Node(kSecond);
  first_.port().Fence(kUuid);
  while (first_.gone() == 0) std::this_thread::yield();
  const int before = first_.registrations();
  scheduler_->Spawn(allocator_.ReleaseAll(*scheduler_));
  scheduler_->RunUntil(0);
  EXPECT_EQ(first_.registrations(), before + 1) << "over the new queue pair";
  EXPECT_EQ(first_.releases(), 1);
  EXPECT_EQ(second_.releases(), 1);
}

}  // namespace
}  // namespace gossamer
