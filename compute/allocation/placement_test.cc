// Placement of nodes and value blocks: each kind in proportion to the servers' memory, by exact
// counts.
#include "compute/allocation/placement.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/testing/seed.h"
#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

constexpr auto kNodes = control::ExtentKind::kNodes;
constexpr auto kBlocks = control::ExtentKind::kBlocks;
constexpr uint64_t kMiB = uint64_t{1} << 20;
// Most that a server's part of a kind may differ from its share, as a fraction.
constexpr double kTolerance = 0.10;

// -- The rule alone.

class PlacementTest : public ::testing::Test {
 protected:
  void Learn(uint16_t server, const control::Usage& usage) {
    placement_.Learn(ServerId{server}, usage, kMiB);
  }
  ServerId First(control::ExtentKind kind, std::optional<ServerId> near = {}) {
    std::vector<ServerId> servers = {ServerId{0}, ServerId{1}, ServerId{2}};
    placement_.Sort(servers, kind, 1024, near);
    return servers.front();
  }
  void Cut(ServerId server, control::ExtentKind kind) { placement_.Cut(server, kind, 1024); }

  Placement placement_{7, 1024};
};

TEST_F(PlacementTest, EachKindFollowsTheFreeBytes) {
  Learn(0, {64 * kMiB, 32 * kMiB, 16 * kMiB, 16 * kMiB});
  Learn(1, {32 * kMiB, 16 * kMiB, 8 * kMiB, 8 * kMiB});
  Learn(2, {32 * kMiB, 16 * kMiB, 8 * kMiB, 8 * kMiB});
  for (const auto kind : {kNodes, kBlocks}) {
    std::map<ServerId, int> count;
    for (int i = 0; i < 4000; ++i) {
      const ServerId server = First(kind);
      Cut(server, kind);
      ++count[server];
    }
    EXPECT_NEAR(count[ServerId{0}], 2000, 1);
    EXPECT_NEAR(count[ServerId{1}], 1000, 1);
    EXPECT_NEAR(count[ServerId{2}], 1000, 1);
  }
}

TEST_F(PlacementTest, ANodeStaysBesideItsParentWhileThatServerIsNotClearlyFuller) {
  for (uint16_t id : {0, 1, 2}) Learn(id, {64 * kMiB, 64 * kMiB, 0, 0});
  int beside = 0;
  while (First(kNodes, ServerId{2}) == ServerId{2}) {
    Cut(ServerId{2}, kNodes);
    ++beside;
  }
  EXPECT_EQ(beside, 9) << "eight more than on the others";
  EXPECT_EQ(First(kBlocks, ServerId{2}), ServerId{2}) << "of nodes alone";
}

TEST_F(PlacementTest, AServerWithMoreThanItsShareOfExtentsComesLast) {
  Learn(0, {64 * kMiB, 32 * kMiB, 16 * kMiB, 16 * kMiB});
  Learn(1, {64 * kMiB, 47 * kMiB, 1 * kMiB, 16 * kMiB});
  Learn(2, {64 * kMiB, 48 * kMiB, 0, 16 * kMiB});
  EXPECT_NE(First(kNodes, ServerId{0}), ServerId{0});
  EXPECT_EQ(First(kBlocks, ServerId{0}), ServerId{0});
}

TEST_F(PlacementTest, ManyComputeServersDoNotAllBeginOnTheSameServer) {
  std::map<ServerId, int> first;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Placement placement(seed, 1024);
    std::vector<ServerId> servers = {ServerId{0}, ServerId{1}, ServerId{2}};
    for (const ServerId id : servers) placement.Learn(id, {64 * kMiB, 64 * kMiB, 0, 0}, kMiB);
    placement.Sort(servers, kBlocks, 1024, {});
    ++first[servers.front()];
  }
  for (uint16_t id : {0, 1, 2}) EXPECT_NEAR(first[ServerId{id}], 100, 40);
}

// -- Loads with value blocks.

struct Load {
  std::string name;
  std::vector<uint64_t> memory_bytes;  // of each server
  size_t clients;

  friend void PrintTo(const Load& load, std::ostream* out) { *out << load.name; }
};

class LoadPlacementTest : public ::testing::TestWithParam<Load> {
 protected:
  // Puts random keys with 200-byte values, from each client in turn.
  void Fill(uint64_t records) {
    ClusterOptions options;
    options.parameters = {1024, 8, 8};
    options.servers = GetParam().memory_bytes.size();
    options.memory_bytes_of = GetParam().memory_bytes;
    options.chunk_bytes = uint64_t{64} << 10;
    cluster_ = std::make_unique<TestCluster>(options);
    for (size_t i = 0; i < GetParam().clients; ++i) {
      clients_.push_back(std::make_unique<TestClient>(*cluster_));
      sessions_.push_back(clients_.back()->NewSession());
    }
    std::mt19937_64 random(TestSeed());
    for (uint64_t i = 0; i < records; ++i) {
      const Status put =
          sessions_[i % sessions_.size()]->Put(NumberKey(random()), std::string(200, 'v'));
      ASSERT_TRUE(put) << put.error().ToString();
    }
  }
  // Counts the nodes below `node`, which starts at `low`, and the blocks that their entries refer
  // to.
  void Count(RemotePtr node, uint32_t level, const Key& low) {
    ++nodes_[ToInteger(node.server())];
    if (level > 0) {
      for (const InternalNode::Child& child : clients_[0]->Internal(node).children) {
        Count(child.pointer, level - 1, child.separator);
      }
      return;
    }
    const std::vector<std::byte> bytes = clients_[0]->LeafBytes(node);
    const LeafGeometry& geometry = clients_[0]->shared().geometry;
    const std::optional<LeafView> leaf = LeafView::Parse(bytes, node, geometry, low);
    ASSERT_TRUE(leaf);
    for (uint32_t unit = 0; unit < geometry.units(); ++unit) {
      leaf->unit(unit).ForEach([this](const Entry& entry) {
        if (entry.has_block()) ++blocks_[ToInteger(entry.block().ptr().server())];
      });
    }
  }
  void ExpectShares(const char* kind, const std::vector<double>& counts) {
    const std::vector<uint64_t>& sizes = GetParam().memory_bytes;
    const double count = std::accumulate(counts.begin(), counts.end(), 0.0);
    const auto size = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}));
    for (size_t i = 0; i < sizes.size(); ++i) {
      const double share = counts[i] / count;
      const double ideal = static_cast<double>(sizes[i]) / size;
      EXPECT_NEAR(share, ideal, kTolerance) << kind << " on server " << i << " of " << count;
      RecordProperty(fmt::format("{}{}", kind, i), fmt::format("{:f} of {:f}", share, ideal));
    }
  }

  std::unique_ptr<TestCluster> cluster_;
  std::vector<std::unique_ptr<TestClient>> clients_;
  std::vector<std::unique_ptr<OpenSession>> sessions_;
  std::vector<double> nodes_ = std::vector<double>(GetParam().memory_bytes.size());
  std::vector<double> blocks_ = std::vector<double>(GetParam().memory_bytes.size());
};

TEST_P(LoadPlacementTest, NodesAndBlocksEachFollowTheSizesOfTheServers) {
  // Enough records that the nodes each client places beside the first leaf are a small part.
  ASSERT_NO_FATAL_FAILURE(Fill(50'000));
  const RootWord root = clients_[0]->Root();
  ASSERT_NO_FATAL_FAILURE(Count(root.pointer(), root.level(), Key()));
  ExpectShares("nodes", nodes_);
  ExpectShares("blocks", blocks_);
}

INSTANTIATE_TEST_SUITE_P(
    Loads, LoadPlacementTest,
    ::testing::Values(
        Load{"TwoServers", {16 * kMiB, 16 * kMiB}, 1},
        Load{"TwoServersEightClients", {16 * kMiB, 16 * kMiB}, 8},
        Load{"FourServers", {16 * kMiB, 16 * kMiB, 16 * kMiB, 16 * kMiB}, 1},
        Load{"FourServersEightClients", {16 * kMiB, 16 * kMiB, 16 * kMiB, 16 * kMiB}, 8},
        Load{"TwoUnequalServers", {32 * kMiB, 8 * kMiB}, 1},
        Load{"TwoUnequalServersEightClients", {32 * kMiB, 8 * kMiB}, 8},
        Load{"FourUnequalServers", {4 * kMiB, 8 * kMiB, 16 * kMiB, 32 * kMiB}, 1},
        Load{"FourUnequalServersEightClients", {4 * kMiB, 8 * kMiB, 16 * kMiB, 32 * kMiB}, 8}),
    [](const auto& load) { return load.param.name; });

}  // namespace
}  // namespace gossamer
