// Check of a store that does not know all of its memory servers: they joined after it was opened.
#include <gtest/gtest.h>

#include "common/bootstrap/membership.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"
#include "compute/store/open_store.h"
#include "compute/store/testing/bootstrapped_store.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

class CheckTest : public BootstrappedStore {
 protected:
  static constexpr uint64_t kKeys = 20'000;
  static constexpr size_t kServers = 5;

  CheckTest() { memory_.push_back(StartMemory()); }

  // Four more servers join, and another client fills the store.
  void Grow() {
    while (memory_.size() < kServers) memory_.push_back(StartMemory());
    const auto late = Open();
    const auto writer = late->NewSession().value();
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(writer->Put(NumberKey(i), "value"));
  }
  static void ExpectWhole(const Result<CheckReport>& checked) {
    ASSERT_TRUE(checked) << checked.error().ToString();
    const CheckReport& report = checked.value();
    EXPECT_EQ(report.problem_count, 0u);
    EXPECT_EQ(report.keys, kKeys);
    uint64_t nodes = 0;
    for (uint32_t server = 0; server < kServers; ++server) {
      ASSERT_TRUE(report.nodes_per_server.contains(server)) << server;
      nodes += report.nodes_per_server.at(server);
    }
    EXPECT_EQ(nodes, report.leaves + report.internal_nodes);
  }

  std::vector<std::unique_ptr<EmbeddedMemory>> memory_;
};

TEST_F(CheckTest, OfAStoreThatWasOpenedBeforeServersJoined) {
  const auto early = Open();
  ASSERT_NO_FATAL_FAILURE(Grow());
  ExpectWhole(early->Check({}));
}

// Another thread of the process meets the servers at the same time. It has connected the port to
// them, so Check's endpoint has queue pairs to servers that the store does not know.
TEST_F(CheckTest, WhileAnotherThreadMeetsTheServers) {
  const StoreRecord record = FindStore(*bootstrap_, {}).value();
  ComputePortOptions options;
  options.client_uuid = RandomId();
  auto opened = OpenComputePort(FabricKind::kShm, options).value();
  ComputePort& port = *opened;
  const std::shared_ptr<Bootstrap> bootstrap = OpenBootstrap(bootstrap_->url()).value();
  const auto early = OpenStore::OpenOn(std::move(opened), record, {}, bootstrap).value();
  ASSERT_NO_FATAL_FAILURE(Grow());
  const StoreRecord grown = FindStore(*bootstrap_, {}).value();
  for (const MemberRecord& member : grown.servers) {
    ASSERT_TRUE(port.Connect(member.server, member.address, member.incarnation));
  }
  ExpectWhole(early->Check({}));
}

// A session meets the servers after the walk: Check's endpoint has no queue pairs to them.
TEST_F(CheckTest, WhileASessionMeetsTheServers) {
  const auto early = Open();
  const auto session = early->NewSession().value();
  const auto checked = early->Check([&](uint64_t) {
    ASSERT_NO_FATAL_FAILURE(Grow());
    for (uint64_t i = 0; i < kKeys; ++i) ASSERT_TRUE(session->Get(NumberKey(i)));
  });
  ASSERT_TRUE(checked) << checked.error().ToString();
  EXPECT_EQ(checked.value().problem_count, 0u);
  EXPECT_EQ(checked.value().nodes_per_server.size(), kServers);
}

}  // namespace
}  // namespace gossamer
