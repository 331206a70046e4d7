// Memory that one compute server frees and another one owns comes back as fast as it is freed (rule
// G4).
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

// Four stores, all of them open, rewrite the same values in turn: each round takes as much memory
// as the values have, and frees that of the round before, which belongs to another store. The
// memory holds two rounds, and what the tree needs.
TEST(WaitingMemoryTest, NoPutIsRefusedWhereStoresRewriteTheSameValuesInTurn) {
  constexpr uint64_t kKeys = 8'000;
  constexpr int kRounds = 8;
  ClusterOptions options;
  options.parameters = {1024, 8, 8};
  options.memory_bytes = uint64_t{4} << 20;  // values take 1 MiB a round
  options.chunk_bytes = uint64_t{64} << 10;
  TestCluster cluster(options);
  std::vector<std::unique_ptr<Store>> stores;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 4; ++i) {
    stores.push_back(cluster.OpenStore());
    sessions.push_back(stores.back()->NewSession().value());
  }
  uint64_t refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (uint64_t i = 0; i < kKeys; ++i) {
      const std::string value(100, static_cast<char>('a' + round));
      const Status put =
          sessions[static_cast<size_t>(round) % 4]->Put(NumberKey(i * 7919 % kKeys), value);
      refused += put ? 0 : 1;
    }
  }
  EXPECT_EQ(refused, 0u);
  const CheckReport report = cluster.Check();
  EXPECT_EQ(report.problems, std::vector<std::string>{});
  EXPECT_EQ(report.keys, kKeys);
}

}  // namespace
}  // namespace gossamer
