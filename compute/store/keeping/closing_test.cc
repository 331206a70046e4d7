// A store that is closed leaves no memory behind, or has memory servers ask for a sweep.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

class ClosingTest : public testing::Test {
 protected:
  static constexpr int kValueBytes = 100;  // in a block of its own

  static ClusterOptions Options() {
    ClusterOptions options;
    options.parameters = {1024, 8, 8};
    options.servers = 3;
    return options;
  }
  static void Put(Session& session, uint64_t number, char with) {
    const Status put = session.Put(NumberKey(number), std::string(kValueBytes, with));
    ASSERT_TRUE(put) << put.error().ToString();
  }
  bool NeedsSweep() {
    const Result<bool> needs = cluster_.OpenStore()->NeedsSweep();
    EXPECT_TRUE(needs) << needs.error().ToString();
    return needs && needs.value();
  }
  uint64_t Lost() {
    uint64_t lost = 0;
    const CheckReport report = cluster_.Check();
    EXPECT_EQ(report.problems, std::vector<std::string>{});
    for (const auto& [server, memory] : report.memory) lost += memory.lost_bytes;
    return lost;
  }

  TestCluster cluster_{Options()};
};

// Each store frees values of another one, on all memory servers, and is closed while it
// acknowledges an epoch. The epoch is that of a sweep that ends at once.
TEST_F(ClosingTest, NoMemoryIsLostWhileAnEpochIsAcknowledged) {
  constexpr uint64_t kStores = 20;
  constexpr uint64_t kOfEach = 24;
  std::unique_ptr<Store> owner = cluster_.OpenStore();
  {
    const auto session = owner->NewSession().value();
    for (uint64_t i = 0; i < kStores * kOfEach; ++i) ASSERT_NO_FATAL_FAILURE(Put(*session, i, 'a'));
  }
  for (uint64_t i = 0; i < kStores; ++i) {
    const std::unique_ptr<Store> store = cluster_.OpenStore();
    const auto session = store->NewSession().value();
    for (uint64_t key = i * kOfEach; key < (i + 1) * kOfEach; ++key) {
      if (key % 2 == 0) {
        ASSERT_NO_FATAL_FAILURE(Put(*session, key, 'b'));
      } else {
        ASSERT_TRUE(session->Delete(NumberKey(key)));
      }
    }
    int steps = 0;
    const auto swept = store->Sweep([&steps](const SweepProgress&) { return ++steps < 2; });
    ASSERT_TRUE(swept) << swept.error().ToString();
    std::this_thread::sleep_for(std::chrono::microseconds(i % 16 * 100));
  }
  owner.reset();
  const uint64_t lost = Lost();
  EXPECT_TRUE(lost == 0 || NeedsSweep()) << lost << " bytes are lost, and no sweep is asked for";
}

// The client that dies has removed values of another one. It never had memory itself.
TEST_F(ClosingTest, ASweepIsNeededAfterTheDeathOfAClientThatOnlyDeleted) {
  {
    const std::unique_ptr<Store> owner = cluster_.OpenStore();
    const auto session = owner->NewSession().value();
    for (uint64_t i = 0; i < 8; ++i) ASSERT_NO_FATAL_FAILURE(Put(*session, i, 'a'));
    TestClient client(cluster_);
    const std::unique_ptr<OpenSession> other = client.NewSession();
    for (uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(other->Delete(NumberKey(i)));
  }
  EXPECT_GT(Lost(), 0u);
  EXPECT_TRUE(NeedsSweep());
}

}  // namespace
}  // namespace gossamer
