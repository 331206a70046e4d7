// Memory that waits for its owner, which gives it up while its sessions get some of it back (rule
// G1).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/testing/seed.h"
#include "compute/session/control_client.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

constexpr ServerId kServer{0};
constexpr uint64_t kChunkBytes = 64 << 10;
const std::string kValue(100, 'v');  // in a block of 128 B

ClusterOptions SmallChunks() {
  ClusterOptions options;
  options.memory_bytes = uint64_t{2} << 20;
  options.chunk_bytes = kChunkBytes;
  options.parameters = {256, 8, 8};
  return options;
}

class GiveUpTest : public testing::Test {
 protected:
  template <typename Reply, typename Request>
  Reply Ask(OpenSession& session, Request request) {
    Scheduler& scheduler = session.scheduler();
    return scheduler.Run(CallControl<Reply>(scheduler.endpoint(), kServer, request)).value();
  }
  uint64_t WaitingBytes() {
    return Ask<control::StatReply>(*bees_, control::StatRequest{}).waiting_bytes;
  }
  void BeeReplacesAndGivesBack(uint64_t keys) {
    for (uint64_t key = 0; key < keys; ++key) {
      ASSERT_TRUE(bees_->Put(NumberKey(key), kValue));
    }
    bees_->Spawn(bee_.shared().allocator.GiveBackReturns(bees_->scheduler()));
    bees_->WaitAll();
  }
  // What the ant takes for its own, while the memory server has others have it, or nobody.
  uint64_t BytesOfTwoOwners() {
    const RemoteAllocator::Granted granted = ant_.shared().allocator.GrantedOn(kServer);
    const auto ask = [this](const control::ListExtentsRequest& request) {
      return CallControl<control::ListExtentsReply>(bees_->scheduler().endpoint(), kServer,
                                                    request);
    };
    const auto listed = bees_->scheduler().Run(ListExtents(ask)).value();
    uint64_t bytes = 0;
    for (const auto& [offset, end] : granted.ends) {
      bytes += end - offset;
      for (const control::Extent& extent : listed) {
        const Lease owner{static_cast<ComputeId>(extent.owner), extent.incarnation};
        const uint64_t first = std::max(offset, extent.offset);
        const uint64_t last = std::min(end, extent.offset + extent.bytes);
        if (owner == granted.lease && first < last) bytes -= last - first;
      }
    }
    return bytes;
  }

  TestCluster cluster_{SmallChunks()};
  TestClient ant_{cluster_};
  TestClient bee_{cluster_};
  std::unique_ptr<OpenSession> ants_ = ant_.NewSession();
  std::unique_ptr<OpenSession> bees_ = bee_.NewSession();
  FaultPlan keepers_plan_;
  std::unique_ptr<OpenSession> keeper_ = ant_.NewSession(keepers_plan_);
};

TEST_F(GiveUpTest, ARequestThatLandsLateFreesNothingThatWasUsedAgain) {
  // The ant's first block waits for the ant.
  ASSERT_TRUE(ants_->Put(NumberKey(0), kValue));
  BeeReplacesAndGivesBack(1);
  ASSERT_EQ(WaitingBytes(), 128u);
  // The ant's keeper gives it up, but the request is on its way for long.
  const auto offer = Ask<control::RenewReply>(*keeper_, control::RenewRequest{});
  ASSERT_EQ(offer.waiting, 1u);
  keepers_plan_.calls = FaultPlan::Calls::kWait;
  keeper_->Spawn(
      [](RemoteAllocator& allocator, Scheduler& scheduler, control::RenewReply what) -> Task<void> {
        static_cast<void>(co_await allocator.GiveUp(scheduler, kServer, what));
      }(ant_.shared().allocator, keeper_->scheduler(), offer));
  // Meanwhile the ant's session is granted it again, and uses it. The bee replaces all that.
  uint64_t keys = 1;
  while (WaitingBytes() != 0) {
    ASSERT_LE(keys, 2 * kChunkBytes / 128) << "the ant is not granted what waits for it";
    ASSERT_TRUE(ants_->Put(NumberKey(keys++), kValue));
  }
  BeeReplacesAndGivesBack(keys);
  ASSERT_NE(WaitingBytes(), 0u);
  ASSERT_EQ(BytesOfTwoOwners(), 0u);
  // The request arrives.
  keepers_plan_.calls = FaultPlan::Calls::kPass;
  keeper_->WaitAll();
  EXPECT_EQ(BytesOfTwoOwners(), 0u);
}

// Each frees the other's blocks, in another order each time: what waits is granted in whole runs,
// and many of them at once.
TEST_F(GiveUpTest, StoresThatRewriteTheSameValuesInTurnAskSeldom) {
  constexpr uint64_t kKeys = 3000;
  constexpr int kRounds = 6;
  std::mt19937_64 random(TestSeed());
  std::vector<uint64_t> keys(kKeys);
  std::iota(keys.begin(), keys.end(), 0);
  const auto sends = [](const OpenSession& session) {
    const Counters counters = session.counters();
    uint64_t sum = 0;
    for (const WireCounts& wire : counters.wire) sum += wire.sends;
    return sum;
  };
  std::string asked;
  for (int round = 0; round < kRounds; ++round) {
    for (TestClient* client : {&ant_, &bee_}) {
      OpenSession& session = client == &ant_ ? *ants_ : *bees_;
      std::ranges::shuffle(keys, random);
      const uint64_t before = sends(session);
      for (const uint64_t key : keys) ASSERT_TRUE(session.Put(NumberKey(key), kValue));
      asked += " " + std::to_string(sends(session) - before);
      session.Spawn(client->shared().allocator.GiveBackReturns(session.scheduler()));
      session.WaitAll();
      EXPECT_LE(sends(session) - before, kKeys / 32) << "round " << round << ":" << asked;
    }
  }
  RecordProperty("sends", asked);
}

}  // namespace
}  // namespace gossamer
