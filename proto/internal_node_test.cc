#include "proto/internal_node.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/test_support.h"
#include "proto/testing/rounds.h"

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

// The expected bytes are computed apart from this code, from LAYOUT.md.
TEST(InternalNode, GoldenBytes) {
  InternalNode node;
  node.version = NodeVersion{0x01020304};
  node.high = HighFence::At("fz");
  node.sibling = RemotePtr(ServerId{3}, 0x45600, 1);
  node.children = {{Key("fa"), ChildPointer(1)},
                   {Key("fg"), ChildPointer(2)},
                   {Key("fgh"), ChildPointer(3)},
                   {Key("fi"), ChildPointer(4)}};
  EXPECT_EQ(ToHexTrimmed(*TryEncode(node, 256)),
            "3d031208c0e91320015604000000030004030201040001000201010066617a01"
            "040200000003000101670208020000000300020168030c020000000300010169"
            "04100200000003");
}

TEST(InternalNode, GoldenBytesOfARoot) {
  InternalNode node;
  node.version = NodeVersion{0x01020304};
  node.level = 2;
  node.children = {
      {Key(""), ChildPointer(1)}, {Key("f"), ChildPointer(2)}, {Key("mn"), ChildPointer(3)}};
  EXPECT_EQ(ToHexTrimmed(*TryEncode(node, 256)),
            "15b2a3c1f809c61c000000000000000004030201030002010000000001040200"
            "00000300000166020802000000030000026d6e030c0200000003");
}

TEST(InternalNode, GoldenBytesOfLongSeparators) {
  InternalNode node;
  node.version = NodeVersion{0x01020304};
  node.frozen = true;
  node.high = HighFence::At("/usr/share/m");
  node.sibling = RemotePtr(ServerId{3}, 0x45600, 1);
  node.children = {{Key("/usr/lib/gcc"), ChildPointer(1)},
                   {Key("/usr/lib/gcc/x86"), ChildPointer(2)},
                   {Key("/usr/lib/git"), ChildPointer(3)},
                   {Key("/usr/s"), ChildPointer(4)},
                   {Key("/usr/share/doc/zlib1g/copyright!"), ChildPointer(5)}};
  EXPECT_EQ(ToHexTrimmed(*TryEncode(node, 256)),
            "c1389d8cfe7f4eb8015604000000030004030201050001020c0507002f757372"
            "2f6c69622f67636373686172652f6d01040200000003000c042f783836020802"
            "00000003000a026974030c0200000003000501730410020000000300061a6861"
            "72652f646f632f7a6c696231672f636f707972696768742105140200000003");
}

class InternalNodeTest : public test::SeededTest {
 protected:
  // How separators are made.
  struct Shape {
    uint32_t max_key = kMaxKeyBytes;
    bool is_uniform = false;  // all have max_key bytes
    std::string stem;         // each starts with a part of it
  };

  // Of nodes that have room for two of the longest keys beside the header.
  Shape RandomShape(size_t node_bytes, uint32_t max_key = kMaxKeyBytes) {
    Shape shape;
    const auto room = static_cast<uint32_t>(node_bytes - kInternalHeaderBytes - 16) / 2;
    shape.max_key = random.Between(1, std::min({max_key, kMaxKeyBytes, room}));
    shape.is_uniform = random.OneIn(3);
    if (random.OneIn(2)) shape.stem = random.String(shape.max_key);
    return shape;
  }

  std::string RandomKey(const Shape& shape) {
    std::string key;
    if (!shape.stem.empty() && !random.OneIn(4)) {
      // Near the end of the stem as often as anywhere.
      const uint32_t cut = random.Below(random.OneIn(2) ? 4 : shape.max_key + 1);
      key = shape.stem.substr(0, shape.max_key - std::min(cut, shape.max_key));
    }
    const auto room = static_cast<uint32_t>(shape.max_key - key.size());
    key += random.String(shape.is_uniform ? room : random.Below(std::min(room, 9u) + 1));
    return key.empty() ? "k" : key;
  }

  // As many children as fit.
  InternalNode RandomNode(size_t node_bytes, const Shape& shape) {
    InternalNode node;
    node.version = NodeVersion{static_cast<uint32_t>(random.Word())};
    node.level = static_cast<uint8_t>(random.Between(1, RootWord::kMaxLevel));
    node.sibling = RemotePtr::FromWord(random.Word());
    std::set<std::string> keys;
    for (int i = 0; i < 400; ++i) keys.insert(RandomKey(shape));
    node.children = {{random.OneIn(2) ? Key() : Key(*keys.begin()), RemotePtr::FromWord(1)}};
    keys.erase(keys.begin());
    if (random.OneIn(2) && !keys.empty()) {
      node.high = HighFence::At(*keys.rbegin());
      keys.erase(*keys.rbegin());
    }
    const bool takes_all = random.OneIn(2);
    for (const std::string& key : keys) {
      if (!takes_all && !random.OneIn(4)) continue;
      node.children.push_back({Key(key), RemotePtr::FromWord(random.Word())});
      if (EncodedBytes(node) > node_bytes) {
        node.children.pop_back();
        break;
      }
    }
    return node;
  }
  InternalNode RandomNode(size_t node_bytes) {
    return RandomNode(node_bytes, RandomShape(node_bytes));
  }
};

TEST_F(InternalNodeTest, EverythingComesBack) {
  for (int i = 0; i < 500; ++i) {
    const size_t node_bytes = size_t{kMinNodeBytes} << random.Below(5);
    const InternalNode node = RandomNode(node_bytes);
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
    const InternalNode node = RandomNode(1024);
    const Bytes image = *TryEncode(node, 1024);
    const auto view = InternalView::Parse(image, kSelf);
    ASSERT_TRUE(view.has_value());
    EXPECT_EQ(view->count(), node.children.size());
    EXPECT_EQ(view->low(), node.low());
    for (const InternalNode::Child& child : node.children) {
      ASSERT_TRUE(view->HasChildAt(child.separator));
      std::string other(child.separator.view());
      if (other.size() == kMaxKeyBytes) continue;
      other += random.OneIn(2) ? '\0' : 'x';
      const bool is_there = std::ranges::any_of(
          node.children, [&](const auto& one) { return one.separator.view() == other; });
      ASSERT_EQ(view->HasChildAt(other), is_there);
    }
    ExpectEqual(view->Decode(), node);
  }
}

// Adding in place gives the bytes that decoding, inserting and encoding gives, or changes nothing.
TEST_F(InternalNodeTest, ChildrenAreAddedInPlaceOrNotAtAll) {
  int added = 0;
  int refused = 0;
  for (int i = 0; i < Rounds(3000); ++i) {
    const Shape shape = RandomShape(1024);
    InternalNode node = RandomNode(1024, shape);
    while (node.children.size() > 1 && random.Below(8) != 0) node.children.pop_back();
    std::set<std::string> keys;
    for (uint32_t j = random.Between(1, 4); j != 0; --j) keys.insert(RandomKey(shape));
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
      const auto encoded = TryEncode(expected, 1024);
      ASSERT_TRUE(encoded.has_value());
      ASSERT_EQ(ToHex(image), ToHex(*encoded));
      ExpectEqual(view->Decode(), expected);
    } else {
      ++refused;
      ASSERT_EQ(image, before);
      ExpectEqual(view->Decode(), node);
      ASSERT_TRUE(children.size() > 1 || EncodedBytes(expected) > 1024);
    }
  }
  EXPECT_GT(added, Rounds(500));
  EXPECT_GT(refused, Rounds(50));
}

TEST_F(InternalNodeTest, ChildIndexIsThatOfTheRangeOfTheKey) {
  for (int i = 0; i < 200; ++i) {
    const InternalNode node = RandomNode(1024, RandomShape(1024, 4));
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
    const InternalNode node = RandomNode(512);
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
    InternalNode node = RandomNode(512);
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

// AddressSanitizer finds what reads or writes outside.
TEST_F(InternalNodeTest, HostileBytesUnderAValidChecksumAreRejectedOrInBounds) {
  int accepted = 0;
  for (int i = 0; i < 50000; ++i) {
    Bytes image(random.OneIn(2) ? 256 : 1024);
    const Shape shape = RandomShape(image.size());
    if (random.OneIn(4)) {
      const std::string noise = random.String(static_cast<uint32_t>(image.size()));
      std::memcpy(image.data(), noise.data(), noise.size());
      if (random.OneIn(2)) image[21] = std::byte{0};
    } else {
      image = *TryEncode(RandomNode(image.size(), shape), image.size());
      for (uint32_t changes = random.Between(1, 3); changes != 0; --changes) {
        const uint32_t last = random.OneIn(2) ? 27 : static_cast<uint32_t>(image.size()) - 1;
        image[random.Between(20, last)] = std::byte{static_cast<uint8_t>(random.Below(256))};
      }
      i += 20;  // costs as much as twenty of the others
    }
    Seal(image);
    auto view = InternalView::Parse(image, kSelf);
    if (!view) continue;
    ++accepted;
    const InternalNode node = view->Decode();
    ASSERT_GE(node.children.size(), 1u);
    ASSERT_LE(node.children.size() * 8, image.size());
    ASSERT_GE(node.level, 1);
    for (int j = 0; j < 4; ++j) {
      std::string key = random.String(8);
      if (key <= view->low()) key = std::string(view->low()) + 'x';
      if (key.size() > kMaxKeyBytes) continue;
      ASSERT_LT(node.ChildIndex(key), node.children.size());
      view->HasChildAt(key);
      const InternalNode::Child child{Key(key), ChildPointer(1)};
      AddInPlace(image, kSelf, view->version(), {&child, 1}, *view);
      ASSERT_TRUE(DecodeInternal(image, kSelf).has_value());
    }
  }
  EXPECT_GT(accepted, 100);
}

TEST(InternalNode, RejectsLengthsThatLeadOutsideUnderAValidChecksum) {
  InternalNode node;
  node.high = HighFence::At("abz");
  node.children = {
      {Key("abc"), ChildPointer(1)}, {Key("abd"), ChildPointer(2)}, {Key("abde"), ChildPointer(3)}};
  const Bytes whole = *TryEncode(node, 256);
  const auto is_accepted_with = [&](std::initializer_list<std::pair<size_t, uint32_t>> changes) {
    Bytes image = whole;
    for (const auto& [at, value] : changes) image[at] = static_cast<std::byte>(value);
    Seal(image);
    return DecodeInternal(image, kSelf).has_value();
  };
  constexpr size_t kFirst = kInternalHeaderBytes + 3 + 1 + 8;  // of the lengths
  constexpr size_t kSecond = kFirst + 2 + 1 + 8;
  ASSERT_EQ(ToHex(std::span(whole).subspan(24, 3)), "030201");
  ASSERT_EQ(ToHex(std::span(whole).subspan(kFirst, 3)), "020164");
  ASSERT_EQ(ToHex(std::span(whole).subspan(kSecond, 3)), "030165");
  EXPECT_TRUE(is_accepted_with({}));
  EXPECT_FALSE(is_accepted_with({{24, kMaxKeyBytes + 1}})) << "long low fence";
  EXPECT_TRUE(is_accepted_with({{25, 3}}));
  EXPECT_FALSE(is_accepted_with({{25, 4}})) << "the high fence shares more than there is";
  EXPECT_FALSE(is_accepted_with({{26, kMaxKeyBytes - 1}})) << "long high fence";
  EXPECT_FALSE(is_accepted_with({{23, 1}})) << "infinite, with a high fence";
  EXPECT_FALSE(is_accepted_with({{23, 1}, {26, 0}})) << "infinite, with shared bytes";
  EXPECT_FALSE(is_accepted_with({{23, 1}, {25, 0}})) << "infinite, with other bytes";
  EXPECT_TRUE(is_accepted_with({{kFirst, 3}}));
  EXPECT_FALSE(is_accepted_with({{kFirst, 4}})) << "shares more than the low fence has";
  EXPECT_FALSE(is_accepted_with({{kFirst, 1}})) << "the next one shares more than is left";
  EXPECT_FALSE(is_accepted_with({{kSecond, 4}})) << "shares more than the one before has";
  EXPECT_TRUE(is_accepted_with({{kSecond + 1, kMaxKeyBytes / 2}}));
  EXPECT_FALSE(is_accepted_with({{kSecond + 1, kMaxKeyBytes - 2}})) << "long separator";
  EXPECT_FALSE(is_accepted_with({{20, 255}})) << "children beyond the end";
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

// A node that cannot take another child is cut at the child that holds the middle byte: both halves
// fit.
TEST_F(InternalNodeTest, ASplitAlwaysLeavesRoom) {
  for (int i = 0; i < Rounds(3000); ++i) {
    const size_t node_bytes = size_t{kMinNodeBytes} << random.Below(5);
    const Shape shape = RandomShape(node_bytes, static_cast<uint32_t>(node_bytes / 8));
    InternalNode node = RandomNode(node_bytes, shape);
    const Key extra(RandomKey(shape));
    if (extra.view() <= node.low()) continue;
    const auto place = node.children.begin() + static_cast<ptrdiff_t>(node.ChildIndex(extra)) + 1;
    if ((place - 1)->separator == extra) continue;
    node.children.insert(place, {extra, ChildPointer(1)});
    if (EncodedBytes(node) <= node_bytes) continue;

    const auto bytes_of = [&node](size_t c) {
      return ChildBytes(node.children[c - 1].separator, node.children[c].separator);
    };
    size_t total = 0;
    for (size_t c = 1; c < node.children.size(); ++c) total += bytes_of(c);
    size_t cut = 1;
    for (size_t sum = 0; cut < node.children.size(); ++cut) {
      sum += bytes_of(cut);
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
