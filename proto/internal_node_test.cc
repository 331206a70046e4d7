#include "proto/internal_node.h"

#include <algorithm>
#include <set>

#include "proto/test_support.h"

namespace gossamer {

bool operator==(const InternalNode::Child& a, const InternalNode::Child& b) {
  return a.separator == b.separator && a.pointer == b.pointer;
}

namespace {

using test::Bytes;
using test::ForEachBitFlip;
using test::ForEachMixture;
using test::ToHex;
using test::ToHexTrimmed;

constexpr RemotePtr kSelf(ServerId{3}, 0x12300, 7);

RemotePtr ChildPointer(uint64_t i) {
  return RemotePtr(ServerId{3}, 0x20000 + i * 0x400, static_cast<uint8_t>(i));
}

std::optional<Bytes> TryEncode(const InternalNode& node, size_t node_bytes) {
  Bytes image(node_bytes, std::byte{0xee});
  if (!EncodeInternal(image, kSelf, node)) return std::nullopt;
  return image;
}

void ExpectEqual(const InternalNode& a, const InternalNode& b) {
  ASSERT_EQ(a.version, b.version);
  ASSERT_EQ(a.level, b.level);
  ASSERT_EQ(a.high, b.high);
  ASSERT_EQ(a.sibling, b.sibling);
  ASSERT_TRUE(a.children == b.children);
}

void Seal(Bytes& image) { gossamer::Seal(UnitSeed(kSelf, 0), image); }

TEST(InternalNode, GoldenBytesOfUniformSeparators) {
  InternalNode node;
  node.version = NodeVersion{0x01020304};
  node.high = HighFence::At("z");
  node.sibling = RemotePtr(ServerId{3}, 0x45600, 1);
  node.children = {
      {Key("a"), ChildPointer(1)}, {Key("fg"), ChildPointer(2)}, {Key("mn"), ChildPointer(3)}};
  EXPECT_EQ(ToHexTrimmed(*TryEncode(node, 256)),
            "2d21ccae3e2bb2a10156040000000300040302010300010001010200617a0104"
            "020000000300666702080200000003006d6e030c0200000003");
}

TEST(InternalNode, GoldenBytesOfVariableSeparators) {
  InternalNode node;
  node.version = NodeVersion{0x01020304};
  node.level = 2;
  node.children = {
      {Key(""), ChildPointer(1)}, {Key("f"), ChildPointer(2)}, {Key("mn"), ChildPointer(3)}};
  EXPECT_EQ(ToHexTrimmed(*TryEncode(node, 256)),
            "9b6d84b40a5e03a1000000000000000004030201030002010000ff0001040200"
            "0000030001660208020000000300026d6e030c0200000003");
}

class InternalNodeTest : public test::SeededTest {
 protected:
  // As many children as fit, with separators of 1 to `max_key` bytes.
  InternalNode RandomNode(size_t node_bytes, uint32_t max_key, bool uniform) {
    InternalNode node;
    node.version = NodeVersion{static_cast<uint32_t>(random.Word())};
    node.level = static_cast<uint8_t>(random.Between(1, RootWord::kMaxLevel));
    node.sibling = RemotePtr::FromWord(random.Word());
    std::set<std::string> keys;
    for (int i = 0; i < 400; ++i) {
      keys.insert(random.String(uniform ? max_key : random.Between(1, max_key)));
    }
    node.children = {{random.OneIn(2) ? Key() : Key(*keys.begin()), RemotePtr::FromWord(1)}};
    keys.erase(keys.begin());
    if (random.OneIn(2)) node.high = HighFence::At(*keys.rbegin());
    for (const std::string& key : keys) {
      if (!random.OneIn(4)) continue;
      node.children.push_back({Key(key), RemotePtr::FromWord(random.Word())});
      if (EncodedBytes(node) > node_bytes) {
        node.children.pop_back();
        break;
      }
    }
    return node;
  }
};

TEST_F(InternalNodeTest, EverythingComesBack) {
  for (int i = 0; i < 500; ++i) {
    const size_t node_bytes = size_t{kMinNodeBytes} << random.Below(5);
    const InternalNode node = RandomNode(node_bytes, random.Between(1, 32), random.OneIn(2));
    const auto image = TryEncode(node, node_bytes);
    ASSERT_TRUE(image.has_value());
    const auto decoded = DecodeInternal(*image, kSelf);
    ASSERT_TRUE(decoded.has_value());
    ExpectEqual(*decoded, node);
    ASSERT_TRUE(TryEncode(node, EncodedBytes(node)).has_value());
    ASSERT_FALSE(TryEncode(node, EncodedBytes(node) - 1).has_value());
  }
}

TEST_F(InternalNodeTest, AViewHasWhatTheDecodedNodeHas) {
  for (int i = 0; i < 300; ++i) {
    const InternalNode node = RandomNode(1024, random.Between(1, 32), random.OneIn(2));
    const Bytes image = *TryEncode(node, 1024);
    const auto view = InternalView::Parse(image, kSelf);
    ASSERT_TRUE(view.has_value());
    EXPECT_EQ(view->count(), node.children.size());
    EXPECT_EQ(view->low(), node.low());
    for (const InternalNode::Child& child : node.children) {
      ASSERT_TRUE(view->HasChildAt(child.separator));
      const std::string longer = std::string(child.separator.view()) + '\0';
      const bool is_there = std::ranges::any_of(
          node.children, [&](const auto& other) { return other.separator.view() == longer; });
      ASSERT_EQ(view->HasChildAt(longer), is_there);
    }
    ExpectEqual(view->Decode(), node);
  }
}

// Adding in place gives the node that decoding, inserting and encoding gives, or changes nothing.
TEST_F(InternalNodeTest, ChildrenAreAddedInPlaceOrNotAtAll) {
  int added = 0;
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    const bool is_uniform = random.OneIn(2);
    const uint32_t key_bytes = random.Between(1, 32);
    InternalNode node = RandomNode(1024, key_bytes, is_uniform);
    while (node.children.size() > 1 && random.Below(8) != 0) node.children.pop_back();
    std::set<std::string> keys;
    for (uint32_t j = random.Between(1, 4); j != 0; --j) {
      keys.insert(random.String(is_uniform ? key_bytes : random.Between(1, key_bytes)));
    }
    InternalNode expected = node;
    expected.version = Next(node.version);
    std::vector<InternalNode::Child> children;
    for (const std::string& key : keys) {
      if (key <= node.low() || !node.high.Admits(key)) continue;
      const size_t index = expected.ChildIndex(key);
      if (expected.children[index].separator.view() == key) continue;
      children.push_back({Key(key), ChildPointer(children.size())});
      expected.children.insert(expected.children.begin() + static_cast<ptrdiff_t>(index) + 1,
                               children.back());
    }
    const Bytes before = *TryEncode(node, 1024);
    Bytes image = before;
    auto view = InternalView::Parse(image, kSelf);
    if (AddInPlace(image, kSelf, expected.version, children, *view)) {
      ++added;
      const auto decoded = DecodeInternal(image, kSelf);
      ASSERT_TRUE(decoded.has_value());
      ExpectEqual(*decoded, expected);
      ExpectEqual(view->Decode(), expected);
    } else {
      ++refused;
      ASSERT_EQ(image, before);
      ExpectEqual(view->Decode(), node);
      const bool had_equal_lengths = static_cast<uint8_t>(before[22]) != 0xff;
      ASSERT_TRUE(had_equal_lengths || EncodedBytes(expected) > 1024);
    }
  }
  EXPECT_GT(added, 500);
  EXPECT_GT(refused, 200);
}

TEST_F(InternalNodeTest, ChildIndexIsThatOfTheRangeOfTheKey) {
  for (int i = 0; i < 200; ++i) {
    const InternalNode node = RandomNode(1024, random.Between(1, 4), random.OneIn(2));
    for (int j = 0; j < 50; ++j) {
      const std::string key = random.String(random.Below(6));
      if (key < node.low()) continue;
      const size_t child = node.ChildIndex(key);
      ASSERT_LE(node.children[child].separator.view(), KeyView(key));
      if (child + 1 < node.children.size()) {
        ASSERT_LT(KeyView(key), node.children[child + 1].separator.view());
      }
    }
  }
}

TEST_F(InternalNodeTest, RejectsEverySingleBitErrorAndAnotherPlace) {
  for (int i = 0; i < 5; ++i) {
    const InternalNode node = RandomNode(512, 16, i % 2 == 0);
    const Bytes whole = *TryEncode(node, 512);
    ForEachBitFlip(whole, [&](const Bytes& image, size_t bit) {
      ASSERT_FALSE(DecodeInternal(image, kSelf).has_value()) << bit;
    });
    for (int bit = 0; bit < 64; ++bit) {
      const auto other = RemotePtr::FromWord(kSelf.word() ^ uint64_t{1} << bit);
      ASSERT_FALSE(DecodeInternal(whole, other).has_value());
    }
  }
}

TEST_F(InternalNodeTest, MixturesOfTwoWritesAreRejected) {
  for (int i = 0; i < 10; ++i) {
    InternalNode node = RandomNode(512, 12, random.OneIn(2));
    const Bytes before = *TryEncode(node, 512);
    if (random.OneIn(2)) {  // a split; else only a pointer changes
      node.version = Next(node.version);
      node.children.resize((node.children.size() + 1) / 2);
    } else {
      node.children.back().pointer = node.children.back().pointer.NextGeneration();
    }
    const Bytes after = *TryEncode(node, 512);
    ForEachMixture(before, after, random, 2000, [&](const Bytes& mixture) {
      ASSERT_EQ(DecodeInternal(mixture, kSelf).has_value(), mixture == before || mixture == after)
          << ToHex(mixture);
    });
  }
}

TEST_F(InternalNodeTest, HostileBytesUnderAValidChecksumAreRejectedOrInBounds) {
  int accepted = 0;
  for (int i = 0; i < 50000; ++i) {
    Bytes image(random.OneIn(2) ? 256 : 1024);
    if (random.OneIn(4)) {
      const std::string noise = random.String(static_cast<uint32_t>(image.size()));
      std::memcpy(image.data(), noise.data(), noise.size());
      if (random.OneIn(2)) image[21] = std::byte{0};
    } else {
      image = *TryEncode(RandomNode(image.size(), 16, random.OneIn(2)), image.size());
      image[random.Between(20, random.OneIn(2) ? 27 : static_cast<uint32_t>(image.size()) - 1)] =
          std::byte{static_cast<uint8_t>(random.Below(256))};
      i += 20;  // costs as much as twenty of the others
    }
    Seal(image);
    if (const auto node = DecodeInternal(image, kSelf)) {
      ++accepted;
      ASSERT_GE(node->children.size(), 1u);
      ASSERT_LE(node->children.size() * 8, image.size());
      ASSERT_GE(node->level, 1);
      for (int j = 0; j < 4; ++j) {
        ASSERT_LT(node->ChildIndex(random.String(8)), node->children.size());
      }
    }
  }
  EXPECT_GT(accepted, 100);
}

TEST(InternalNode, RejectsLeafLevelsAndNoChildrenUnderAValidChecksum) {
  InternalNode node;
  node.children = {{Key(""), ChildPointer(1)}};
  Bytes image = *TryEncode(node, 256);
  image[22] = std::byte{0};
  Seal(image);
  EXPECT_FALSE(DecodeInternal(image, kSelf).has_value()) << "level 0";
  image[22] = std::byte{1};
  image[20] = std::byte{0};
  Seal(image);
  EXPECT_FALSE(DecodeInternal(image, kSelf).has_value()) << "no children";
  image[20] = std::byte{1};
  Seal(image);
  EXPECT_TRUE(DecodeInternal(image, kSelf).has_value());
}

// A node that cannot take another child is cut at the child that holds the middle byte: both halves fit.
TEST_F(InternalNodeTest, ASplitAlwaysLeavesRoom) {
  for (int i = 0; i < 3000; ++i) {
    const size_t node_bytes = size_t{kMinNodeBytes} << random.Below(5);
    InternalNode node = RandomNode(node_bytes, random.Between(1, 32), random.OneIn(2));
    const Key extra(random.String(random.OneIn(2) ? kMaxKeyBytes : random.Between(1, 32)));
    if (extra.view() <= node.low()) continue;
    const auto place = node.children.begin() + static_cast<ptrdiff_t>(node.ChildIndex(extra)) + 1;
    if ((place - 1)->separator == extra) continue;
    node.children.insert(place, {extra, ChildPointer(1)});
    if (EncodedBytes(node) <= node_bytes) continue;

    size_t total = 0;
    for (size_t c = 1; c < node.children.size(); ++c)
      total += node.children[c].separator.size() + 9;
    size_t cut = 1;
    for (size_t sum = 0; cut < node.children.size(); ++cut) {
      sum += node.children[cut].separator.size() + 9;
      if (2 * sum >= total) break;
    }
    const auto middle = node.children.begin() + static_cast<ptrdiff_t>(cut);
    InternalNode left = node;
    left.children.assign(node.children.begin(), middle);
    left.high = HighFence::At(middle->separator);
    InternalNode right = node;
    right.children.assign(middle, node.children.end());
    ASSERT_LE(EncodedBytes(left), node_bytes);
    ASSERT_LE(EncodedBytes(right), node_bytes);
  }
}

}  // namespace
}  // namespace gossamer
