#include "proto/node_recognizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/leaf_test_support.h"

namespace gossamer {
namespace {

constexpr ServerId kServer{7};
constexpr uint64_t kOffset = uint64_t{5} << 30;

class NodeRecognizerTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  std::vector<std::byte> LeafAt(RemotePtr pointer, const std::string& low,
                                const std::string& high) const {
    const std::vector<std::string> keys = {low + "0", low + "1", low + "2"};
    std::vector<Entry> entries;
    for (const std::string& key : keys) entries.push_back({key, "value"});
    const test::LeafImage leaf{
        .node_bytes = GetParam(), .leaf = pointer, .range = {low, HighFence::At(high)}};
    return leaf.TryEncode(entries).value();
  }
  std::vector<std::byte> InternalAt(RemotePtr pointer) const {
    InternalNode node;
    node.children = {{Key("a"), RemotePtr(ServerId{0}, 8192, 1)},
                     {Key("ab"), RemotePtr(ServerId{0}, 16384, 2)}};
    std::vector<std::byte> bytes(GetParam());
    EXPECT_TRUE(EncodeInternal(bytes, pointer, node));
    return bytes;
  }

  const LeafGeometry geometry_{GetParam()};
  const NodeRecognizer recognizer_{geometry_};
};
INSTANTIATE_TEST_SUITE_P(All, NodeRecognizerTest, ::testing::Values(256, 512, 1024, 2048, 4096));

TEST_P(NodeRecognizerTest, FindsTheGeneration) {
  for (uint32_t generation = 0; generation < RemotePtr::kGenerations; ++generation) {
    const RemotePtr pointer(kServer, kOffset, static_cast<uint8_t>(generation));
    const std::vector<std::byte> internal = InternalAt(pointer);
    EXPECT_EQ(recognizer_.Internal(kServer, kOffset, internal), pointer);
    EXPECT_EQ(recognizer_.Leaf(kServer, kOffset, internal), std::nullopt);
    // Prefixes of 0, 5, 6, 7 and 20 bytes.
    for (const size_t prefix : {0, 5, 6, 7, 20}) {
      const std::string low = std::string(prefix, 'p') + "a";
      const std::vector<std::byte> leaf = LeafAt(pointer, low, std::string(prefix, 'p') + "b");
      EXPECT_EQ(recognizer_.Leaf(kServer, kOffset, leaf), pointer);
      EXPECT_EQ(recognizer_.Internal(kServer, kOffset, leaf), std::nullopt);
      for (uint32_t unit = 0; unit < geometry_.units(); ++unit) {
        EXPECT_EQ(recognizer_.Unit(kServer, kOffset, leaf, unit, low), pointer);
        if (prefix != 0) {
          EXPECT_EQ(recognizer_.Unit(kServer, kOffset, leaf, unit, "q"), std::nullopt);
        }
      }
    }
  }
}

TEST_P(NodeRecognizerTest, TakesNothingThatIsElsewhereOrDamaged) {
  const RemotePtr pointer(kServer, kOffset, 200);
  std::vector<std::byte> leaf = LeafAt(pointer, "a", "b");
  std::vector<std::byte> internal = InternalAt(pointer);
  EXPECT_FALSE(recognizer_.Leaf(kServer, kOffset + GetParam(), leaf));
  EXPECT_FALSE(recognizer_.Leaf(ServerId{8}, kOffset, leaf));
  EXPECT_FALSE(recognizer_.Internal(kServer, kOffset + GetParam(), internal));
  EXPECT_FALSE(recognizer_.Unit(kServer, kOffset + GetParam(), leaf, 0, "a"));
  test::Random random(test::Seed());
  for (int i = 0; i < 1000; ++i) {
    const size_t at = random.Below(GetParam());
    const auto change = static_cast<std::byte>(1 + random.Below(255));
    internal[at] ^= change;
    EXPECT_FALSE(recognizer_.Internal(kServer, kOffset, internal)) << at;
    internal[at] ^= change;
    leaf[at] ^= change;
    for (uint32_t unit = 0; unit < geometry_.units(); ++unit) {
      const bool is_hit = at / geometry_.unit_bytes() == unit && at < geometry_.trailer_offset();
      EXPECT_EQ(recognizer_.Unit(kServer, kOffset, leaf, unit, "a").has_value(), !is_hit) << at;
    }
    EXPECT_EQ(recognizer_.Leaf(kServer, kOffset, leaf).has_value(), at < geometry_.trailer_offset())
        << at;
    leaf[at] ^= change;
  }
  const std::vector<std::byte> zeros(GetParam());
  EXPECT_FALSE(recognizer_.Leaf(kServer, kOffset, zeros));
  EXPECT_FALSE(recognizer_.Internal(kServer, kOffset, zeros));
}

}  // namespace
}  // namespace gossamer
