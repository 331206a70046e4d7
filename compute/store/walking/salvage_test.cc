// A scan of a store with unreachable or damaged parts sees everything else and reports what is
// missing.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compute/store/testing/test_cluster.h"

namespace gossamer {
namespace {

constexpr ServerId kOther{1};
constexpr uint64_t kSalvaged = 20;

class SalvageTest : public testing::Test {
 protected:
  explicit SalvageTest(const StoreParameters& parameters = {1024, 8, 8})
      : cluster_(Options(parameters)) {}

  static ClusterOptions Options(const StoreParameters& parameters) {
    ClusterOptions options;
    options.parameters = parameters;
    options.servers = 2;
    options.chunk_bytes = uint64_t{64} << 10;
    return options;
  }
  // One leaf whose values are blocks on both servers: too many bytes for that of the leaf alone.
  void FillOneLeaf() {
    const std::unique_ptr<OpenSession> session = client_.NewSession();
    for (uint64_t i = 0; i < kSalvaged; ++i) {
      ASSERT_TRUE(session->Put(NumberKey(i), std::string(2000, 'v')));
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

  TestCluster cluster_;
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
  EXPECT_EQ(found.keys.size(), kSalvaged - 1);
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
  std::vector<std::byte> image(client_.shared().parameters.node_bytes);
  ASSERT_TRUE(EncodeInternal(image, at, root));
  client_.Write(at.server(), at.offset(), image);
  const Found found = Scan();
  ASSERT_TRUE(found.status) << found.status.error().ToString();
  ASSERT_EQ(found.missing.size(), 1u);
  EXPECT_EQ(found.missing[0].why.code, Code::kCorruption);
  EXPECT_THAT(found.missing[0].why.message,
              testing::HasSubstr(fmt::format("offset {}", at.offset())));
}

class SalvageOfLongKeysTest : public SalvageTest {
 protected:
  SalvageOfLongKeysTest() : SalvageTest({1024, kMaxKeyBytes, 16}) {}

  // The first leaf stores the first 16 bytes of these.
  static std::string LongKey(uint64_t number) {
    return std::string(20, 'k') + NumberKey(number) + std::string(100, 'x');
  }
  void Load(uint64_t count) {
    const std::unique_ptr<OpenSession> session = client_.NewSession();
    for (uint64_t i = 0; i < count; ++i) ASSERT_TRUE(session->Put(LongKey(i), "value"));
  }
  // Damages the block of a long key.
  void Damage(const std::string& key) {
    const TestClient::FoundLeaf at = client_.FindLeaf(key);
    const std::vector<std::byte> bytes = client_.LeafBytes(at.leaf);
    const LeafGeometry& geometry = client_.shared().geometry;
    const std::optional<LeafView> leaf = LeafView::Parse(bytes, at.leaf, geometry, at.low);
    std::optional<BlockPtr> block;
    for (uint32_t unit = 0; leaf && unit < geometry.units(); ++unit) {
      leaf->unit(unit).ForEach([&](const Entry& entry) {
        if (entry.is_long() && entry.key_hash() == KeyHash(key)) block = entry.block().ptr();
      });
    }
    ASSERT_TRUE(block);
    client_.Write(block->server(), block->offset(), std::vector<std::byte>(64, std::byte{0xff}));
  }
  static bool IsIn(const MissingKeys& range, std::string_view key) {
    return key >= range.from && (!range.to || key < *range.to);
  }
  // Ranges in order, disjoint, without keys that were seen.
  static void ExpectHonest(const Found& found) {
    ASSERT_TRUE(found.status) << found.status.error().ToString();
    EXPECT_TRUE(std::ranges::is_sorted(found.keys));
    for (size_t i = 0; i < found.missing.size(); ++i) {
      const MissingKeys& range = found.missing[i];
      const bool is_last = i + 1 == found.missing.size();
      ASSERT_TRUE(range.to || is_last);
      ASSERT_TRUE(!range.to || range.from < *range.to);
      ASSERT_TRUE(is_last || *range.to <= found.missing[i + 1].from);
      for (const std::string& key : found.keys) {
        EXPECT_FALSE(IsIn(range, key)) << key << " is seen and missing";
      }
    }
  }
};

TEST_F(SalvageOfLongKeysTest, WhatIsBetweenTheKeysOfTheLeafIsMissing) {
  ASSERT_NO_FATAL_FAILURE(Load(4));
  ASSERT_NO_FATAL_FAILURE(Damage(LongKey(1)));
  ASSERT_NO_FATAL_FAILURE(Damage(LongKey(2)));
  const Found found = Scan();
  ASSERT_NO_FATAL_FAILURE(ExpectHonest(found));
  EXPECT_THAT(found.keys, testing::ElementsAre(LongKey(0), LongKey(3)));
  ASSERT_EQ(found.missing.size(), 3u);
  EXPECT_EQ(found.missing[0].from, std::string(kLongHeadBytes, 'k'));
  EXPECT_EQ(found.missing[0].to, LongKey(0));
  EXPECT_EQ(found.missing[1].from, LongKey(0) + '\0');
  EXPECT_EQ(found.missing[1].to, LongKey(3));
  EXPECT_EQ(found.missing[2].from, LongKey(3) + '\0');
  EXPECT_EQ(found.missing[2].to, std::string(kLongHeadBytes - 1, 'k') + 'l');
}

// The first leaf ends between keys with the same first bytes.
TEST_F(SalvageOfLongKeysTest, NothingIsMissingOutsideOfTheLeafOrTheScan) {
  constexpr uint64_t kMany = 100;
  ASSERT_NO_FATAL_FAILURE(Load(kMany));
  const Key fence = client_.Internal(client_.Root().pointer()).children[1].separator;
  ASSERT_LT(LongKey(2), fence.view());
  ASSERT_NO_FATAL_FAILURE(Damage(LongKey(1)));
  const Found found = Scan();
  ASSERT_NO_FATAL_FAILURE(ExpectHonest(found));
  EXPECT_EQ(found.keys.size(), kMany - 1);
  EXPECT_TRUE(std::ranges::any_of(
      found.missing, [](const MissingKeys& range) { return IsIn(range, LongKey(1)); }));
  ASSERT_FALSE(found.missing.empty());
  EXPECT_EQ(found.missing.back().to, fence.view());

  ScanOptions options;
  options.from = LongKey(1);
  options.to = LongKey(2);
  const Found some = Scan(options);
  ASSERT_NO_FATAL_FAILURE(ExpectHonest(some));
  EXPECT_TRUE(some.keys.empty());
  ASSERT_EQ(some.missing.size(), 1u);
  EXPECT_EQ(some.missing[0].from, options.from);
  EXPECT_EQ(some.missing[0].to, options.to);
}

// ---- Without the root: leaves are found in the memory of all servers.

class RootlessTest : public testing::Test {
 protected:
  static ClusterOptions Options(size_t servers) {
    ClusterOptions options;
    options.parameters = {512, 250, 16};
    options.servers = servers;
    options.chunk_bytes = uint64_t{64} << 10;
    return options;
  }
  // Every third value is in a block, and every eleventh key.
  static std::string KeyOf(const std::string& prefix, uint64_t number) {
    return fmt::format("{}{:08}", prefix, number) + (number % 11 == 0 ? std::string(150, 'k') : "");
  }
  static std::string ValueOf(uint64_t number) {
    return fmt::format("{}", number) + std::string(number % 3 == 0 ? 100 : 0, 'v');
  }
  using Pairs = std::map<std::string, std::string>;
  static Pairs Fill(TestCluster& cluster, const std::string& prefix, uint64_t keys) {
    const std::unique_ptr<Store> store = cluster.OpenStore();
    const std::unique_ptr<Session> session = store->NewSession().value();
    Pairs pairs;
    for (uint64_t i = 0; i < keys; ++i) {
      const uint64_t number = i * 7919 % keys;
      EXPECT_TRUE(session->Put(KeyOf(prefix, number), ValueOf(number)));
      pairs[KeyOf(prefix, number)] = ValueOf(number);
    }
    // So that leaves are merged, and some of the past are left.
    for (uint64_t number = keys / 4; number < keys / 2; ++number) {
      EXPECT_TRUE(session->Delete(KeyOf(prefix, number)));
      pairs.erase(KeyOf(prefix, number));
    }
    return pairs;
  }
  static SalvageReport Salvage(const TestCluster& cluster, Pairs& pairs) {
    OpenOptions options;
    options.bootstrap = cluster.bootstrap_url();
    std::string last;
    const Result<SalvageReport> report = Store::Salvage(options, [&](const KeyValueView& pair) {
      EXPECT_TRUE(pairs.empty() || pair.key > last) << pair.key;
      last = pair.key;
      pairs[last] = pair.value;
      return true;
    });
    EXPECT_TRUE(report) << report.error().ToString();
    return report ? report.value() : SalvageReport{};
  }
};

// Low fences are too long for the trailers: other nodes name them.
TEST_F(RootlessTest, ADamagedRootHidesNothing) {
  TestCluster cluster(Options(2));
  const Pairs before = Fill(cluster, "a/path/that/all/of/them/share/", 5000);
  {
    TestClient client(cluster);
    const RemotePtr root = client.Root().pointer();
    client.Write(root.server(), root.offset(), std::vector<std::byte>(512, std::byte{0xff}));
  }
  Pairs found;
  const SalvageReport report = Salvage(cluster, found);
  EXPECT_EQ(found, before);
  EXPECT_EQ(report.keys, before.size());
  EXPECT_EQ(report.lost_values, 0u);
  EXPECT_TRUE(report.unreachable.empty());
}

TEST_F(RootlessTest, WhatOtherServersHaveIsFoundWithoutServerZero) {
  TestCluster cluster(Options(3));
  const Pairs before = Fill(cluster, "", 5000);
  cluster.Kill(ServerId{0});
  Pairs found;
  const SalvageReport report = Salvage(cluster, found);
  EXPECT_EQ(report.keys, found.size());
  EXPECT_GT(found.size(), before.size() / 6);
  EXPECT_GT(report.lost_values, 0u);
  EXPECT_EQ(report.unreachable.size(), 1u);
  // Deletes that only a lost leaf knew of are not known. No value is another's.
  for (const auto& [key, value] : found) {
    const auto known = before.find(key);
    if (known == before.end()) continue;
    ASSERT_EQ(value, known->second) << key;
  }
}

TEST_F(RootlessTest, WithoutARecordThereIsNothingToFind) {
  OpenOptions options;
  options.bootstrap = "dir:" + testing::TempDir() + "gossamer-without-a-store";
  const Result<SalvageReport> report =
      Store::Salvage(options, [](const KeyValueView&) { return true; });
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace gossamer
