// A scan of a store with unreachable or damaged parts sees everything else and reports what is
// missing.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

constexpr ServerId kOther{1};
constexpr uint64_t kKeys = 20;

class SalvageTest : public testing::Test {
 protected:
  static ClusterOptions Options() {
    ClusterOptions options;
    options.parameters = {1024, 8, 8};
    options.servers = 2;
    options.chunk_bytes = uint64_t{64} << 10;
    return options;
  }
  // One leaf whose values are blocks on both servers.
  void FillOneLeaf() {
    const std::unique_ptr<OpenSession> session = client_.NewSession();
    for (uint64_t i = 0; i < kKeys; ++i) {
      ASSERT_TRUE(session->Put(NumberKey(i), std::string(100, 'v')));
    }
    ASSERT_EQ(client_.Root().level(), 0u);
    ASSERT_THAT(KeysWithBlocksElsewhere(), testing::SizeIs(testing::Gt(3u)));
  }
  struct KeyAndBlock {
    std::string key;
    BlockPtr block;
  };
  // In ascending order.
  std::vector<KeyAndBlock> KeysWithBlocksElsewhere() {
    const RemotePtr at = client_.Root().pointer();
    const std::vector<std::byte> bytes = client_.LeafBytes(at);
    const LeafGeometry& geometry = client_.shared().geometry;
    const std::optional<LeafView> leaf = LeafView::Parse(bytes, at, geometry, "");
    std::vector<KeyAndBlock> keys;
    for (uint32_t unit = 0; leaf && unit < geometry.units(); ++unit) {
      leaf->unit(unit).ForEach([&keys](const Entry& entry) {
        if (!entry.has_block() || entry.block().ptr().server() != kOther) return;
        keys.push_back({std::string(entry.key), entry.block().ptr()});
      });
    }
    std::ranges::sort(keys, {}, &KeyAndBlock::key);
    return keys;
  }
  struct Found {
    std::vector<std::string> keys;
    std::vector<MissingKeys> missing;
    Status status = Ok();
  };
  Found Scan(ScanOptions options = {}) {
    options.salvage = true;
    const std::unique_ptr<OpenSession> session = client_.NewSession();
    const std::unique_ptr<ScanCursor> cursor = session->Scan(options);
    Found found;
    while (cursor->Next()) found.keys.emplace_back(cursor->key());
    found.missing.assign(cursor->missing().begin(), cursor->missing().end());
    found.status = cursor->status();
    return found;
  }

  TestCluster cluster_{Options()};
  TestClient client_{cluster_};
};

TEST_F(SalvageTest, NothingIsMissingBehindTheEndOfTheScan) {
  ASSERT_NO_FATAL_FAILURE(FillOneLeaf());
  const std::vector<KeyAndBlock> lost = KeysWithBlocksElsewhere();
  cluster_.Kill(kOther);
  ScanOptions options;
  options.to = lost[1].key;
  const Found found = Scan(options);
  ASSERT_TRUE(found.status) << found.status.error().ToString();
  ASSERT_EQ(found.missing.size(), 1u);
  EXPECT_EQ(found.missing[0].from, lost[0].key);
  EXPECT_EQ(found.missing[0].to, lost[0].key + '\0');
}

// Blocks of a leaf are read together.
TEST_F(SalvageTest, ADamagedValueHidesNoOther) {
  ASSERT_NO_FATAL_FAILURE(FillOneLeaf());
  const KeyAndBlock damaged = KeysWithBlocksElsewhere()[1];
  client_.Write(kOther, damaged.block.offset(), std::vector<std::byte>(64, std::byte{0xff}));
  const Found found = Scan();
  ASSERT_TRUE(found.status) << found.status.error().ToString();
  EXPECT_EQ(found.keys.size(), kKeys - 1);
  ASSERT_EQ(found.missing.size(), 1u);
  EXPECT_EQ(found.missing[0].from, damaged.key);
  EXPECT_EQ(found.missing[0].why.code, Code::kCorruption) << found.missing[0].why.ToString();
}

// A root that ends in the middle of the key space and has no sibling.
TEST_F(SalvageTest, AnInternalNodeThatEndsEarlyIsNamed) {
  constexpr uint64_t kMany = 200;
  const std::unique_ptr<OpenSession> session = client_.NewSession();
  for (uint64_t i = 0; i < kMany; ++i) ASSERT_TRUE(session->Put(NumberKey(i), "12345678"));
  const RemotePtr at = client_.Root().pointer();
  InternalNode root = client_.Internal(at);
  root.high = HighFence::At(NumberKey(kMany / 2));
  std::vector<std::byte> image(Options().parameters.node_bytes);
  ASSERT_TRUE(EncodeInternal(image, at, root));
  client_.Write(at.server(), at.offset(), image);
  const Found found = Scan();
  ASSERT_TRUE(found.status) << found.status.error().ToString();
  ASSERT_EQ(found.missing.size(), 1u);
  EXPECT_EQ(found.missing[0].why.code, Code::kCorruption);
  EXPECT_THAT(found.missing[0].why.message,
              testing::HasSubstr(fmt::format("offset {}", at.offset())));
}

}  // namespace
}  // namespace gossamer
