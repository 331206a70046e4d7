#include "memory/control_service.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "common/process.h"
#include "proto/region.h"

namespace gossamer {
namespace {

using control::ExtentKind;
using ::testing::HasSubstr;

constexpr uint64_t kChunkBytes = 64 << 10;
constexpr uint64_t kRegionBytes = kHeapOffset + 20 * kChunkBytes;
constexpr uint64_t kAntClient = 11;
constexpr uint64_t kBeeClient = 22;
constexpr Endpoint::Clock::time_point kStart{std::chrono::hours(5)};

class ControlServiceTest : public ::testing::Test {
 protected:
  explicit ControlServiceTest(std::chrono::milliseconds lease = {})
      : ControlServiceTest(lease, ChunkAllocator(kHeapOffset, kRegionBytes, kChunkBytes),
                           LeaseTable()) {}
  ControlServiceTest(std::chrono::milliseconds lease, ChunkAllocator allocator, LeaseTable leases)
      : lease_(lease), service_(std::move(allocator), LockTableFacts{}, lease, std::move(leases)) {}
  std::span<const std::byte> Send(uint64_t client, std::span<const std::byte> request) {
    std::memset(reply_.data(), 0xee, reply_.size());
    return std::span(reply_).first(service_.Handle(client, request, reply_));
  }
  template <typename Request>
  std::span<const std::byte> Send(uint64_t client, const Request& request) {
    return Send(client, std::as_bytes(std::span(&request, 1)));
  }
  template <typename Reply, typename Request>
  Reply Ask(uint64_t client, const Request& request) {
    const auto bytes = Send(client, request);
    Reply reply;
    EXPECT_EQ(bytes.size(), sizeof reply);
    if (bytes.size() == sizeof reply) std::memcpy(&reply, bytes.data(), sizeof reply);
    EXPECT_EQ(reply.header.type, Reply{}.header.type);
    EXPECT_EQ(reply.header.version, control::kProtocolVersion);
    return reply;
  }
  template <typename Request>
  Error Refusal(uint64_t client, const Request& request) {
    const auto reply = Ask<control::ErrorReply>(client, request);
    return {static_cast<Code>(reply.code), std::string(reply.message, reply.message_bytes)};
  }
  static control::AllocateRequest Request(uint64_t bytes, ExtentKind kind = ExtentKind::kNodes) {
    control::AllocateRequest request;
    request.bytes = bytes;
    request.kind = kind;
    return request;
  }
  static control::LeaseQueryRequest Query(uint16_t compute, uint32_t incarnation) {
    control::LeaseQueryRequest request;
    request.compute_id = compute;
    request.incarnation = incarnation;
    return request;
  }
  static control::ReleaseRequest Tail(const control::AllocateReply& extent, uint64_t keep) {
    control::ReleaseRequest request;
    request.count = 1;
    request.compute_id = extent.compute_id;
    request.incarnation = extent.incarnation;
    request.ranges[0] = {extent.offset + keep, extent.bytes - keep, extent.generation,
                         control::Past::kUnused};
    return request;
  }

  const std::chrono::milliseconds lease_;
  ControlService service_;
  std::array<std::byte, kMaxControlBytes> reply_{};
};

TEST_F(ControlServiceTest, TellsASweeperWhoWasGrantedWhat) {
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  const auto extent = Ask<control::AllocateReply>(kAntClient, Request(1024));
  service_.ClientGone(kAntClient);
  Ask<control::RegisterReply>(kBeeClient, control::RegisterRequest{});
  const GrantedMemory granted = service_.Granted();
  ASSERT_EQ(granted.extents.size(), 1u);
  EXPECT_EQ(granted.extents[0].offset, extent.offset);
  EXPECT_EQ(granted.extents[0].bytes, kChunkBytes);
  EXPECT_EQ(granted.extents[0].client_uuid, kAntClient);
  EXPECT_EQ(granted.extents[0].lease, (Lease{ComputeId{1}, 1}));
  ASSERT_EQ(granted.in_force.size(), 1u);
  EXPECT_EQ(granted.in_force[0].client_uuid, kBeeClient);
  EXPECT_EQ(granted.in_force[0].lease, (Lease{ComputeId{2}, 1}));
}

TEST_F(ControlServiceTest, RegistersAndAllocates) {
  const auto lease = Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  EXPECT_EQ(lease.compute_id, 1);
  EXPECT_EQ(lease.incarnation, 1u);
  const auto extent = Ask<control::AllocateReply>(kAntClient, Request(1024));
  EXPECT_EQ(extent.offset, kHeapOffset);
  EXPECT_EQ(extent.bytes, kChunkBytes);
  EXPECT_EQ(extent.usage.heap_bytes, 20 * kChunkBytes);
  EXPECT_EQ(extent.usage.free_bytes, 19 * kChunkBytes);
  EXPECT_EQ(extent.usage.node_bytes, kChunkBytes);
  EXPECT_EQ(extent.usage.block_bytes, 0u);
  EXPECT_EQ(extent.compute_id, 1);
  EXPECT_EQ(extent.incarnation, 1u);
  EXPECT_EQ(Ask<control::RegisterReply>(kBeeClient, control::RegisterRequest{}).usage.node_bytes,
            kChunkBytes);
  service_.ClientGone(kBeeClient);
  Ask<control::ReleaseReply>(kAntClient, Tail(extent, 4096));
  const auto stat = Ask<control::StatReply>(kBeeClient, control::StatRequest{});
  EXPECT_EQ(stat.usage.node_bytes, 4096u);
  EXPECT_EQ(stat.extents, 1u);
  EXPECT_EQ(stat.compute_servers, 1u);
  EXPECT_EQ(stat.usage.free_bytes, 20 * kChunkBytes - 4096);
}

TEST_F(ControlServiceTest, MemoryIsForTheRegistered) {
  EXPECT_EQ(Refusal(kAntClient, Request(1024)).code, Code::kFenced);
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  const auto extent = Ask<control::AllocateReply>(kAntClient, Request(1024));
  EXPECT_EQ(Refusal(kBeeClient, Tail(extent, 0)).code, Code::kFenced);
  const auto bee = Ask<control::RegisterReply>(kBeeClient, control::RegisterRequest{});
  control::ReleaseRequest by_bee = Tail(extent, 0);
  EXPECT_EQ(Refusal(kBeeClient, by_bee).code, Code::kFenced) << "under the ant's lease";
  by_bee.compute_id = bee.compute_id;
  by_bee.incarnation = bee.incarnation;
  EXPECT_EQ(Ask<control::ReleaseReply>(kBeeClient, by_bee).refused, 1u) << "never used";
}

TEST_F(ControlServiceTest, RegisteringAgainAbandonsTheMemory) {
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  const auto extent = Ask<control::AllocateReply>(kAntClient, Request(1024));
  service_.ClientGone(kAntClient);
  EXPECT_EQ(Refusal(kAntClient, Request(1024)).code, Code::kFenced);
  EXPECT_EQ(Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{}).incarnation, 2u);
  control::ReleaseRequest request = Tail(extent, 1024);
  EXPECT_EQ(Refusal(kAntClient, request).code, Code::kFenced);
  request.incarnation = 2;
  EXPECT_EQ(Ask<control::ReleaseReply>(kAntClient, request).refused, 1u);
  EXPECT_EQ(service_.Stat().usage.node_bytes, kChunkBytes);
}

TEST_F(ControlServiceTest, AnEpochIsAcknowledgedByAllThatAreRegistered) {
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  control::EpochRequest start;
  start.start = 1;
  const uint32_t epoch = Ask<control::EpochReply>(kBeeClient, start).epoch;
  auto state = Ask<control::EpochReply>(kBeeClient, control::EpochRequest{});
  EXPECT_EQ(state.epoch, epoch);
  EXPECT_EQ(state.acknowledged, epoch - 1);
  Ask<control::RegisterReply>(kBeeClient, control::RegisterRequest{});
  control::RenewRequest renewal;
  EXPECT_EQ(Ask<control::RenewReply>(kAntClient, renewal).epoch, epoch);
  EXPECT_EQ(Ask<control::EpochReply>(kBeeClient, control::EpochRequest{}).acknowledged, epoch - 1);
  renewal.epoch = epoch;
  Ask<control::RenewReply>(kAntClient, renewal);
  EXPECT_EQ(Ask<control::EpochReply>(kBeeClient, control::EpochRequest{}).acknowledged, epoch);
  Ask<control::EpochReply>(kBeeClient, start);
  service_.ClientGone(kAntClient);
  service_.ClientGone(kBeeClient);
  EXPECT_EQ(Ask<control::EpochReply>(kBeeClient, control::EpochRequest{}).acknowledged, epoch + 1);
}

TEST_F(ControlServiceTest, AnEpochBeginsWhenMuchIsWorn) {
  const auto ant = Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  const uint32_t epoch = Ask<control::EpochReply>(kAntClient, control::EpochRequest{}).epoch;
  const auto wear = [&] {
    const auto extent = Ask<control::AllocateReply>(kAntClient, Request(kChunkBytes));
    control::ReleaseRequest request;
    request.compute_id = ant.compute_id;
    request.incarnation = ant.incarnation;
    request.count = 1;
    request.ranges[0] = {extent.offset, kChunkBytes, 255, control::Past::kUsed};
    EXPECT_EQ(Ask<control::ReleaseReply>(kAntClient, request).refused, 0u);
  };
  wear();
  EXPECT_EQ(Ask<control::EpochReply>(kAntClient, control::EpochRequest{}).epoch, epoch);
  for (int i = 0; i < 19; ++i) wear();
  EXPECT_EQ(Ask<control::EpochReply>(kAntClient, control::EpochRequest{}).epoch, epoch + 1);
  EXPECT_EQ(Refusal(kAntClient, Request(kChunkBytes)).code, Code::kExhausted);
  control::RenewRequest renewal;
  renewal.epoch = epoch + 1;
  Ask<control::RenewReply>(kAntClient, renewal);
  EXPECT_EQ(Ask<control::AllocateReply>(kAntClient, Request(kChunkBytes)).generation, 0);
}

TEST_F(ControlServiceTest, ARenewalTellsWhatWaits) {
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  const auto bee = Ask<control::RegisterReply>(kBeeClient, control::RegisterRequest{});
  const auto extent = Ask<control::AllocateReply>(kAntClient, Request(1024, ExtentKind::kBlocks));
  control::ReleaseRequest request;
  request.compute_id = bee.compute_id;
  request.incarnation = bee.incarnation;
  request.count = 1;
  request.ranges[0] = {extent.offset, 64, 1, control::Past::kUsed};
  Ask<control::ReleaseReply>(kBeeClient, request);
  EXPECT_EQ(Ask<control::RenewReply>(kBeeClient, control::RenewRequest{}).waiting, 0u);
  const auto renewed = Ask<control::RenewReply>(kAntClient, control::RenewRequest{});
  ASSERT_EQ(renewed.waiting, 1u);
  EXPECT_EQ(renewed.ranges[0].offset, extent.offset);
  EXPECT_EQ(renewed.ranges[0].bytes, 64u);
  EXPECT_EQ(service_.Stat().waiting_bytes, 64u);
  // The ant gives it up, under the lease to which it was offered.
  const auto ant = Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  control::GiveUpRequest give_up;
  give_up.offer = renewed.offer;
  give_up.compute_id = ant.compute_id;
  give_up.incarnation = ant.incarnation + 1;
  EXPECT_EQ(Refusal(kAntClient, give_up).code, Code::kFenced);
  give_up.incarnation = ant.incarnation;
  EXPECT_EQ(Ask<control::GiveUpReply>(kAntClient, give_up).bytes, 64u);
  EXPECT_EQ(Ask<control::GiveUpReply>(kAntClient, give_up).bytes, 0u);
  EXPECT_EQ(service_.Stat().waiting_bytes, 0u);
}

TEST_F(ControlServiceTest, OrphanedMemoryIsListedWithItsOwner) {
  const auto ant = Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  const auto bee = Ask<control::RegisterReply>(kBeeClient, control::RegisterRequest{});
  const auto extent = Ask<control::AllocateReply>(kAntClient, Request(1024));
  Ask<control::AllocateReply>(kBeeClient, Request(1024));
  control::ClientQueryRequest query;
  query.client_uuid = kAntClient;
  EXPECT_EQ(Ask<control::ClientQueryReply>(kBeeClient, query).in_force, 1u);
  service_.ClientGone(kAntClient);
  EXPECT_EQ(Ask<control::ClientQueryReply>(kBeeClient, query).in_force, 0u);
  const auto list = Ask<control::ListExtentsReply>(kBeeClient, control::ListExtentsRequest{});
  ASSERT_EQ(list.count, 2u);
  EXPECT_EQ(list.extents[0].client_uuid, kAntClient);
  EXPECT_EQ(list.extents[0].owner, ant.compute_id);
  EXPECT_EQ(list.extents[0].incarnation, ant.incarnation);
  EXPECT_EQ(list.extents[0].is_orphaned, 1);
  EXPECT_EQ(list.extents[1].client_uuid, kBeeClient);
  EXPECT_EQ(list.extents[1].is_orphaned, 0);
  EXPECT_EQ(service_.Stat().orphaned_bytes, kChunkBytes);
  control::ReleaseRequest request;
  request.compute_id = bee.compute_id;
  request.incarnation = bee.incarnation;
  request.count = 2;
  request.ranges[0] = {extent.offset,  4096,           0, control::Past::kOrphaned,
                       ant.compute_id, ant.incarnation};
  request.ranges[1] = {list.extents[1].offset,   4096,           0,
                       control::Past::kOrphaned, bee.compute_id, bee.incarnation};
  EXPECT_EQ(Ask<control::ReleaseReply>(kBeeClient, request).refused, 2u) << "the bee lives";
  EXPECT_EQ(service_.Stat().orphaned_bytes, kChunkBytes - 4096);
}

// The ends of leases that a sweep has still to see to.
TEST_F(ControlServiceTest, CountsLeasesThatLeaveMemoryBehind) {
  using Step = control::SweepStep;
  const auto tell = [this](uint64_t client, Step step, uint32_t ended = 0) {
    control::SweepRequest request;
    request.step = step;
    request.ended = ended;
    return Ask<control::SweepReply>(client, request);
  };
  const auto ended = [&] { return tell(kBeeClient, Step::kAsk).ended; };
  const auto begin = [this](bool with_memory) {
    Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
    if (with_memory) Ask<control::AllocateReply>(kAntClient, Request(1024));
  };
  Ask<control::RegisterReply>(kBeeClient, control::RegisterRequest{});
  begin(true);
  tell(kAntClient, Step::kFarewell);
  service_.ClientGone(kAntClient);
  EXPECT_EQ(ended(), 0u) << "it had said farewell";
  begin(false);
  service_.ClientGone(kAntClient);
  EXPECT_EQ(ended(), 1u) << "it may have removed memory of others from the tree";
  begin(true);
  tell(kAntClient, Step::kFarewell);
  Ask<control::AllocateReply>(kAntClient, Request(1024));
  service_.ClientGone(kAntClient);
  EXPECT_EQ(ended(), 2u) << "it has asked for memory after its farewell";

  // Of the bee's memory the ant may have lost some.
  Ask<control::AllocateReply>(kBeeClient, Request(1024));
  tell(kBeeClient, Step::kFarewell);
  service_.ClientGone(kBeeClient);
  Ask<control::RegisterReply>(kBeeClient, control::RegisterRequest{});
  EXPECT_EQ(ended(), 3u);

  EXPECT_EQ(tell(kBeeClient, Step::kDone, 2).swept, 2u);
  EXPECT_EQ(tell(kBeeClient, Step::kDone, 1).swept, 2u) << "a sweep that began earlier";
  EXPECT_EQ(tell(kBeeClient, Step::kDone, 4).swept, 2u) << "that has not happened";
  EXPECT_EQ(tell(kBeeClient, Step::kDone, 3).swept, 3u);
}

// What the process before has left in memory: the ant had a chunk under the last of its leases.
class LeftMemory {
 protected:
  LeftMemory() { (void)Open(true).Allocate(1024, {kAntLease, kAntClient}, ExtentKind::kNodes); }
  ChunkAllocator Open(bool is_new) {
    const uint64_t grains = ChunkAllocator::GrainsOf(kHeapOffset, kRegionBytes);
    words_.resize(HeapMap::BytesFor(grains) / 8);
    const auto bytes = std::as_writable_bytes(std::span(words_));
    return std::move(
        ChunkAllocator::Open(kHeapOffset, kRegionBytes, kChunkBytes,
                             is_new ? HeapMap::New(bytes, grains) : HeapMap::Left(bytes, grains))
            .value());
  }
  static constexpr Lease kAntLease{ComputeId{1}, 7};

 private:
  std::vector<uint64_t> words_;
};

class RestartedServiceTest : private LeftMemory, public ControlServiceTest {
 protected:
  RestartedServiceTest()
      : ControlServiceTest({}, Open(false), LeaseTable({kAntLease.incarnation, 1})) {}
};

TEST_F(RestartedServiceTest, MemoryOfLeasesBeforeIsToBeSwept) {
  const auto ant = Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  EXPECT_EQ(ant.incarnation, 8u);
  EXPECT_EQ(Ask<control::LeaseQueryReply>(kBeeClient, Query(1, 7)).in_force, 0u);
  const auto list = Ask<control::ListExtentsReply>(kAntClient, control::ListExtentsRequest{});
  ASSERT_EQ(list.count, 1u);
  EXPECT_EQ(list.extents[0].client_uuid, kAntClient);
  EXPECT_EQ(list.extents[0].incarnation, 7u);
  EXPECT_EQ(list.extents[0].is_orphaned, 1);
  EXPECT_EQ(service_.Stat().orphaned_bytes, kChunkBytes);
  EXPECT_EQ(Ask<control::SweepReply>(kAntClient, control::SweepRequest{}).ended, 1u);
  EXPECT_EQ(Ask<control::AllocateReply>(kAntClient, Request(1024)).offset,
            kHeapOffset + kChunkBytes);
}

TEST_F(ControlServiceTest, OneComputeServerSweeps) {
  const auto is_sweeper = [this](uint64_t client, control::SweepStep step) {
    control::SweepRequest request;
    request.step = step;
    return Ask<control::SweepReply>(client, request).is_sender != 0;
  };
  using Step = control::SweepStep;
  for (const uint64_t client : {kAntClient, kBeeClient}) {
    Ask<control::RegisterReply>(client, control::RegisterRequest{});
  }
  EXPECT_TRUE(is_sweeper(kAntClient, Step::kBegin));
  EXPECT_FALSE(is_sweeper(kBeeClient, Step::kBegin));
  EXPECT_FALSE(is_sweeper(kBeeClient, Step::kEnd));
  EXPECT_TRUE(is_sweeper(kAntClient, Step::kAsk)) << "only the sweeper ends its sweep";
  EXPECT_FALSE(is_sweeper(kAntClient, Step::kEnd));
  EXPECT_TRUE(is_sweeper(kBeeClient, Step::kBegin));
  service_.ClientGone(kBeeClient);
  EXPECT_TRUE(is_sweeper(kAntClient, Step::kBegin)) << "the bee is gone";
}

TEST_F(ControlServiceTest, TellsWhichMemoryItTookBack) {
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  const auto bee = Ask<control::RegisterReply>(kBeeClient, control::RegisterRequest{});
  const auto extent = Ask<control::AllocateReply>(kAntClient, Request(1024, ExtentKind::kBlocks));
  control::ReleaseRequest request;
  request.compute_id = bee.compute_id;
  request.incarnation = bee.incarnation;
  request.count = 3;
  request.ranges[0] = {extent.offset, 64, 1, control::Past::kUsed};
  request.ranges[1] = {extent.offset, 64, 1, control::Past::kUsed};
  request.ranges[2] = {extent.offset + 128, 128, 1, control::Past::kUsed};
  EXPECT_EQ(Ask<control::ReleaseReply>(kBeeClient, request).refused, 2u);
  EXPECT_EQ(service_.Stat().usage.free_bytes, 19 * kChunkBytes) << "it waits for the ant";
  service_.ClientGone(kAntClient);
  EXPECT_EQ(service_.Stat().usage.free_bytes, 19 * kChunkBytes + 192);
  request.count = 0;
  EXPECT_EQ(Refusal(kBeeClient, request).code, Code::kInvalidArgument);
  request.count = control::ReleaseRequest::kMaxRanges + 1;
  EXPECT_EQ(Refusal(kBeeClient, request).code, Code::kInvalidArgument);
}

TEST_F(ControlServiceTest, LeasesThatDoNotExpireAreNotEnded) {
  EXPECT_EQ(Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{}).lease_ms, 0u);
  EXPECT_EQ(Ask<control::RenewReply>(kAntClient, control::RenewRequest{}).lease_ms, 0u);
  for (int hours = 0; hours < 100; ++hours) {
    EXPECT_TRUE(service_.Tick(kStart + std::chrono::hours(hours)).empty());
  }
  EXPECT_EQ(Ask<control::LeaseQueryReply>(kBeeClient, Query(1, 1)).in_force, 1u);
}

TEST_F(ControlServiceTest, OnlyTheLeaseInForceIsInForce) {
  const auto in_force = [this](uint16_t compute, uint32_t incarnation) {
    return Ask<control::LeaseQueryReply>(kBeeClient, Query(compute, incarnation)).in_force;
  };
  EXPECT_EQ(in_force(1, 1), 0u) << "not given out yet";
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  EXPECT_EQ(in_force(1, 1), 1u);
  EXPECT_EQ(in_force(1, 2), 0u);
  EXPECT_EQ(in_force(2, 1), 0u);
  EXPECT_EQ(in_force(0, 0), 0u);
  service_.ClientGone(kAntClient);
  EXPECT_EQ(in_force(1, 1), 0u);
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  EXPECT_EQ(in_force(1, 1), 0u);
  EXPECT_EQ(in_force(1, 2), 1u);
}

TEST_F(ControlServiceTest, ALeaseInForceNamesTheProcessThatRegistered) {
  control::RegisterRequest request;
  request.process = {4711, 3, "ant"};
  Ask<control::RegisterReply>(kAntClient, request);
  Ask<control::RegisterReply>(kBeeClient, control::RegisterRequest{});
  EXPECT_EQ(Describe(Ask<control::LeaseQueryReply>(kBeeClient, Query(1, 1)).holder),
            "process 4711 on host ant");
  EXPECT_EQ(Ask<control::LeaseQueryReply>(kBeeClient, Query(2, 1)).holder.process_id, 0u);
  service_.ClientGone(kAntClient);
  EXPECT_EQ(Ask<control::LeaseQueryReply>(kBeeClient, Query(1, 1)).holder.process_id, 0u);
  request.process = {4712, 3, "ant"};
  Ask<control::RegisterReply>(kAntClient, request);
  EXPECT_EQ(Ask<control::LeaseQueryReply>(kBeeClient, Query(1, 2)).holder.process_id, 4712u);
}

// Names come from other machines: any bytes are shown as one short word.
TEST(ProcessNameTest, ShowsBytesThatDoNotPrintAsSuch) {
  EXPECT_EQ(Describe({}), "a process that did not say its name");
  EXPECT_EQ(Describe({1, 4, {'a', '\n', '\x1b', '\xff'}}), "process 1 on host a???");
  EXPECT_EQ(Describe({1, 255, "ant"}).size(),
            std::string("process 1 on host ").size() + control::ProcessName::kMaxHostBytes);
  const control::ProcessName own = OwnProcessName();
  EXPECT_EQ(own.process_id, static_cast<uint32_t>(getpid()));
  EXPECT_GT(own.host_bytes, 0);
}

class ExpiringLeaseTest : public ControlServiceTest {
 protected:
  static constexpr std::chrono::milliseconds kLease{2000};
  // Ticks for `duration`; returns the clients to fence.
  std::vector<uint64_t> Pass(std::chrono::milliseconds duration) {
    std::vector<uint64_t> fenced;
    for (const auto end = now_ + duration; now_ < end;) {
      now_ += kTickInterval;
      for (const uint64_t client : service_.Tick(now_)) fenced.push_back(client);
    }
    return fenced;
  }

  ExpiringLeaseTest() : ControlServiceTest(kLease) {}
  void SetUp() override { service_.Tick(now_); }
  Endpoint::Clock::time_point now_ = kStart;
};

TEST_F(ExpiringLeaseTest, WhoIsSilentIsFencedAndComesAgainUnderANewLease) {
  const auto lease = Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  EXPECT_EQ(lease.lease_ms, kLease.count());
  EXPECT_TRUE(Pass(kLease - kTickInterval).empty());
  EXPECT_EQ(Pass(kTickInterval), std::vector<uint64_t>{kAntClient});
  EXPECT_TRUE(Pass(kLease).empty()) << "once";

  // The client's queue pairs are being destroyed: others must not take its locks yet, and it may do
  // nothing itself.
  EXPECT_EQ(Ask<control::LeaseQueryReply>(kBeeClient, Query(1, 1)).in_force, 1u);
  EXPECT_EQ(Refusal(kAntClient, control::RenewRequest{}).code, Code::kFenced);
  EXPECT_EQ(Refusal(kAntClient, control::RegisterRequest{}).code, Code::kFenced);
  EXPECT_EQ(Refusal(kAntClient, Request(1024)).code, Code::kFenced);

  service_.ClientGone(kAntClient);
  EXPECT_EQ(Ask<control::LeaseQueryReply>(kBeeClient, Query(1, 1)).in_force, 0u);
  EXPECT_EQ(Refusal(kAntClient, control::RenewRequest{}).code, Code::kFenced);
  EXPECT_EQ(Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{}).incarnation, 2u);
  EXPECT_TRUE(Pass(kLease - kTickInterval).empty());
  EXPECT_EQ(Pass(kTickInterval), std::vector<uint64_t>{kAntClient});
}

TEST_F(ExpiringLeaseTest, AnyMessageRenews) {
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  Ask<control::RegisterReply>(kBeeClient, control::RegisterRequest{});
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(Pass(kLease / 2).empty());
    const auto renewed = Ask<control::RenewReply>(kAntClient, control::RenewRequest{});
    EXPECT_EQ(renewed.lease_ms, kLease.count());
    EXPECT_EQ(renewed.compute_servers, 2u);
    Ask<control::StatReply>(kBeeClient, control::StatRequest{});
  }
  EXPECT_TRUE(Pass(kLease / 2).empty());
  Ask<control::LeaseQueryReply>(kAntClient, Query(9, 9));
  EXPECT_EQ(Pass(kLease / 2), std::vector<uint64_t>{kBeeClient});
}

// Messages that clients sent during the pause are still unread.
TEST_F(ExpiringLeaseTest, TimeInWhichTheServerDidNotRunIsNotHeldAgainstItsClients) {
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  EXPECT_TRUE(Pass(kLease / 2).empty());
  now_ += std::chrono::hours(1);
  EXPECT_TRUE(service_.Tick(now_).empty());
  Ask<control::RenewReply>(kAntClient, control::RenewRequest{});
  EXPECT_TRUE(Pass(kLease - kTickInterval).empty());
}

TEST_F(ControlServiceTest, ExhaustionIsAnAnswer) {
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  const Error error = Refusal(kAntClient, Request(21 * kChunkBytes));
  EXPECT_EQ(error.code, Code::kExhausted);
  EXPECT_THAT(error.message, HasSubstr("20 of 20 chunks of 65536 bytes"));
  EXPECT_EQ(Refusal(kAntClient, Request(~uint64_t{0})).code, Code::kExhausted);
}

TEST_F(ControlServiceTest, ListsExtentsInPages) {
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  // Neighbours of one kind are one extent.
  const auto kind_of = [](uint32_t i) {
    return i % 4 < 2 ? ExtentKind::kNodes : ExtentKind::kBlocks;
  };
  for (uint32_t i = 0; i < 20; ++i) Ask<control::AllocateReply>(kAntClient, Request(1, kind_of(i)));
  control::ListExtentsRequest request;
  uint32_t listed = 0;
  while (true) {
    const auto page = Ask<control::ListExtentsReply>(kBeeClient, request);
    for (uint32_t i = 0; i < page.count; ++i, ++listed) {
      EXPECT_EQ(page.extents[i].offset, kHeapOffset + listed * 2 * kChunkBytes);
      EXPECT_EQ(page.extents[i].bytes, 2 * kChunkBytes);
      EXPECT_EQ(page.extents[i].owner, 1);
      EXPECT_EQ(page.extents[i].kind, kind_of(2 * listed));
      request.from_offset = page.extents[i].offset + page.extents[i].bytes;
    }
    if (page.more == 0) break;
  }
  EXPECT_EQ(listed, 10u);
}

TEST_F(ControlServiceTest, RefusesWhatItDoesNotSpeak) {
  control::RegisterRequest request;
  request.header.version = control::kProtocolVersion + 1;
  EXPECT_EQ(Refusal(kAntClient, request).code, Code::kUnsupported);
  request.header = {static_cast<control::Type>(99)};
  EXPECT_THAT(Refusal(kAntClient, request).message, HasSubstr("type 99"));
  request.header = {control::Type::kError};
  EXPECT_EQ(Refusal(kAntClient, request).code, Code::kInvalidArgument);
  request.header = {control::Type::kAllocate};
  EXPECT_THAT(Refusal(kAntClient, request).message, HasSubstr("72 bytes"));
  EXPECT_THAT(Refusal(kAntClient, 'x').message, HasSubstr("1 bytes"));
  Ask<control::RegisterReply>(kAntClient, control::RegisterRequest{});
  EXPECT_THAT(Refusal(kAntClient, Request(1024, static_cast<ExtentKind>(3))).message,
              HasSubstr("kind 3"));
}

// Any bytes get a well-formed answer, and the accounting of memory stays correct.
TEST_F(ControlServiceTest, HostileBytes) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 50000; ++i) {
    std::vector<std::byte> request(random() % 4 == 0 ? random() % 300 : 8 * (random() % 10));
    for (std::byte& byte : request) byte = static_cast<std::byte>(random());
    if (random() % 8 != 0 && request.size() >= 8) {
      const control::Header header{static_cast<control::Type>(random() % 9)};
      std::memcpy(request.data(), &header, sizeof header);
    }
    if (random() % 2 == 0 && request.size() >= 16) {
      const uint64_t small = random() % (22 * kChunkBytes);
      std::memcpy(request.data() + 8, &small, sizeof small);
      if (request.size() > 16) request[16] = static_cast<std::byte>(random() % 4);
    }
    const uint64_t client = random() % 3;
    const auto reply = Send(client, std::span<const std::byte>(request));
    ASSERT_GE(reply.size(), sizeof(control::Header));
    ASSERT_LE(reply.size(), kMaxControlBytes);
    control::Header header;
    std::memcpy(&header, reply.data(), sizeof header);
    ASSERT_LE(static_cast<uint16_t>(header.type), 11);
    ASSERT_EQ(header.version, control::kProtocolVersion);
    if (random() % 100 == 0) service_.ClientGone(client);
    const auto stat = service_.Stat();
    ASSERT_EQ(stat.usage.node_bytes + stat.usage.block_bytes + stat.usage.free_bytes,
              stat.usage.heap_bytes);
  }
}

}  // namespace
}  // namespace gossamer
