// Rule W2 on a path whose packets are smaller than a node: nothing is written over it, whenever the
// path appears, because a client that died would leave a torn node. Uses a simulated network whose
// paths change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/bootstrap/testing/memory_bootstrap.h"
#include "common/fabric/open/open_port.h"
#include "common/fabric/sim/sim.h"
#include "common/random_id.h"
#include "common/testing/seed.h"
#include "compute/store/open_store.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kTooLittle = 512;
constexpr uint64_t kKeys = 2000;

class PathMtuTest : public ::testing::Test {
 protected:
  static SimOptions NetworkOptions() {
    SimOptions options;
    options.seed = TestSeed();
    options.verbs_per_break = 4;  // after breaks are switched on
    return options;
  }
  static ClusterOptions Options(SimNetwork& network) {
    ClusterOptions options;
    options.servers = 2;
    options.chunk_bytes = uint64_t{64} << 10;
    options.network = &network;
    return options;
  }
  const std::string& Address(size_t server) const {
    return cluster_.record().servers[server].address;
  }
  Result<std::unique_ptr<OpenStore>> Open(const StoreRecord& record,
                                          std::unique_ptr<Bootstrap> bootstrap = nullptr) {
    ComputePortOptions port;
    port.client_uuid = RandomId();
    port.network = &network_;
    return OpenStore::OpenOn(OpenComputePort(FabricKind::kSim, port).value(), record, {},
                             std::move(bootstrap));
  }
  template <typename T>
  static void ExpectRefused(const Result<T>& result) {
    ASSERT_FALSE(result) << "over a path whose MTU is too small";
    EXPECT_EQ(result.error().code, Code::kUnsupported) << result.error().ToString();
    EXPECT_THAT(result.error().message,
                AllOf(HasSubstr("nodes of 1024 bytes"), HasSubstr("an MTU of 512")));
  }

  SimNetwork network_{NetworkOptions()};
  TestCluster cluster_{Options(network_)};
};

TEST_F(PathMtuTest, OfAServerThatIsKnownWhenTheStoreIsOpened) {
  network_.SetPathMtu(Address(1), kTooLittle);
  ExpectRefused(Open(cluster_.record()));
}

TEST_F(PathMtuTest, OfAServerThatIsLearntLater) {
  StoreRecord early = cluster_.record();
  early.servers.pop_back();
  auto bootstrap = std::make_unique<MemoryBootstrap>();
  bootstrap->Overwrite(early.store, EncodeStoreRecord(cluster_.record()));
  const auto store = Open(early, std::move(bootstrap)).value();
  const auto session = store->NewSession().value();
  const auto late = Open(cluster_.record()).value();
  const auto writer = late->NewSession().value();
  for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(writer->Put(NumberKey(i), "value"));

  network_.SetPathMtu(Address(1), kTooLittle);
  uint64_t refused = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    const Status put = session->Put(NumberKey(i), "later");
    if (put) continue;
    ++refused;
    ASSERT_NO_FATAL_FAILURE(ExpectRefused(put));
  }
  EXPECT_GT(refused, 0u) << "all nodes are on the first server";
}

TEST_F(PathMtuTest, OfTheQueuePairsOfANewSession) {
  const auto store = Open(cluster_.record()).value();
  ASSERT_TRUE(store->NewSession().value()->Put("key", "value"));
  network_.SetPathMtu(Address(0), kTooLittle);
  const auto session = store->NewSession().value();
  ExpectRefused(session->Get("key"));
  ExpectRefused(session->Put("key", "other"));
}

TEST_F(PathMtuTest, OfAQueuePairThatTakesAnothersPlace) {
  const auto store = Open(cluster_.record()).value();
  const auto session = store->NewSession().value();
  ASSERT_TRUE(session->Put("key", "value"));
  network_.SetPathMtu(Address(0), kTooLittle);
  ASSERT_TRUE(session->Put("key", "value")) << "over the queue pair that was there before";
  network_.SetFaults({.break_queue_pairs = true});
  Result<std::string> got = session->Get("key");
  for (int i = 0; i < 1000 && got; ++i) got = session->Get("key");
  ExpectRefused(got);
  ExpectRefused(session->Put("key", "other"));
  network_.SetFaults({});
}

}  // namespace
}  // namespace gossamer
