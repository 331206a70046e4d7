// Trailers and whole leaves: their bytes, the placement of entries, rejection.
#include <algorithm>
#include <set>

#include "proto/leaf_test_support.h"
#include "proto/region.h"

namespace gossamer {
namespace {

using test::Bytes;
using test::Content;
using test::ContentOf;
using test::EntriesOf;
using test::ForEachBitFlip;
using test::ForEachMixture;
using test::LeafImage;
using test::LeafTest;
using test::Shape;
using test::ToHex;
using test::ToHexTrimmed;

// ---- Geometry

TEST(LeafGeometry, UnitsLieInOrderBeforeTheTrailer) {
  for (uint32_t bytes = kMinNodeBytes; bytes <= kMaxNodeBytes; bytes *= 2) {
    const LeafGeometry geometry(bytes);
    EXPECT_GE(geometry.groups(), 1u);
    EXPECT_LE(geometry.units(), kMaxUnits);
    EXPECT_EQ(geometry.overflow_unit(), geometry.groups());
    EXPECT_EQ(geometry.unit_offset(0), 0u);
    EXPECT_EQ(geometry.unit_bytes() % 4, 0u);
    EXPECT_LE(geometry.unit_offset(geometry.units()), geometry.trailer_offset());
    EXPECT_EQ(geometry.trailer_offset() + kTrailerBytes, bytes);
    EXPECT_EQ(geometry.GroupOf(0), 0u);
    EXPECT_EQ(geometry.GroupOf(0xffffffff), geometry.groups() - 1);
  }
}

TEST(LeafGeometry, GoldenSizes) {  // part of the format
  const auto sizes = [](uint32_t node_bytes) {
    const LeafGeometry geometry(node_bytes);
    return std::pair(geometry.units(), geometry.unit_bytes());
  };
  EXPECT_EQ(sizes(256), std::pair(2u, 108u));
  EXPECT_EQ(sizes(512), std::pair(3u, 156u));
  EXPECT_EQ(sizes(1024), std::pair(6u, 164u));
  EXPECT_EQ(sizes(2048), std::pair(12u, 164u));
  EXPECT_EQ(sizes(4096), std::pair(24u, 168u));
}

TEST(LeafGeometry, KeysSpreadEvenlyOverGroups) {
  const LeafGeometry geometry(1024);
  std::vector<uint32_t> keys(geometry.groups());
  for (uint64_t i = 0; i < 50000; ++i) {
    const uint64_t big_endian = __builtin_bswap64(i);
    ++keys[geometry.GroupOf(KeyHash({reinterpret_cast<const char*>(&big_endian), 8}))];
  }
  for (const uint32_t count : keys) EXPECT_NEAR(count, 10000, 500);
}

// ---- Golden bytes

TEST(Leaf, GoldenBytes) {
  LeafImage leaf{.node_bytes = 256, .range = {"key0", HighFence::At("key9")}};
  Content content;
  for (const char digit : {'0', '1', '2', '3', '4', '5'}) {
    content[std::string("key") + digit] = {std::string("value-0") + digit + "-16bytes"};
  }
  const auto image = leaf.TryEncode(EntriesOf(content));
  ASSERT_TRUE(image.has_value());
  EXPECT_EQ(ToHexTrimmed(*image),
            "a05754adfa84e05e09000000058001100301393076616c75652d30302d313662"
            "797465733176616c75652d30312d313662797465733276616c75652d30322d31"
            "3662797465733376616c75652d30332d313662797465733476616c75652d3034"
            "2d313662797465730000000045b1a2edcdf8572b090000000100011003013935"
            "76616c75652d30352d3136627974657300000000000000000000000000000000"
            "0000000000000000000000000000000000000000000000000000000000000000"
            "000000000000000000000000000000000000000000000000148fccd9a90bc7c3"
            "0900000000046b657930000000000000000000000000000001560400000003");
}

TEST(Trailer, GoldenBytes) {
  LeafImage leaf{.version = NodeVersion{0x01020304}, .range = {.low = "k0"}};
  EXPECT_EQ(ToHexTrimmed(leaf.Trailer(*leaf.TryEncode({}))),
            "7b616a3f67a2f1c60403020100026b3000000000000000000000000000000000"
            "01560400000003");
  leaf.range.low = "abcdefghijklmnopqrstuvwxyz";
  leaf.sibling = RemotePtr();
  EXPECT_EQ(ToHex(leaf.Trailer(*leaf.TryEncode({}))),
            "9fd986505dad96ad04030201001a6162636465666768696a6b6c6d6e25efe69e"
            "0000000000000000");
}

// ---- Trailer

TEST(LowFenceMark, MatchesItsFenceOnly) {
  std::vector<std::string> fences;
  for (uint32_t length = 0; length <= kMaxKeyBytes; ++length) {
    fences.push_back(std::string(length, 'a'));
    fences.push_back(std::string(length, '\0'));
    if (length != 0) {
      fences.push_back(std::string(length - 1, 'a') + 'b');
      fences.push_back('b' + std::string(length - 1, 'a'));
    }
  }
  std::ranges::sort(fences);
  fences.erase(std::unique(fences.begin(), fences.end()), fences.end());
  for (const std::string& fence : fences) {
    for (const std::string& other : fences) {
      ASSERT_EQ(LowFenceMark::Of(fence).Matches(other), fence == other);
    }
  }
  EXPECT_TRUE(LowFenceMark::Of(KeyView()).Matches(""));
}

TEST_F(LeafTest, TrailerComesBackOrIsRejected) {
  for (int i = 0; i < 30; ++i) {
    const LeafImage leaf = RandomLeaf(kMinNodeBytes << random.Below(5));
    const Bytes trailer = leaf.Trailer(*leaf.TryEncode({}));
    const auto view = leaf.ParseTrailer(trailer);
    ASSERT_TRUE(view.has_value());
    ASSERT_EQ(view->version(), leaf.version);
    ASSERT_EQ(view->sibling(), leaf.sibling);
    ASSERT_TRUE(view->low().Matches(leaf.range.low));

    ForEachBitFlip(trailer, [&](const Bytes& image, size_t bit) {
      ASSERT_FALSE(leaf.ParseTrailer(image).has_value()) << bit;
    });
    for (int bit = 0; bit < 64; ++bit) {  // generation, offset, server
      const auto other = RemotePtr::FromWord(leaf.leaf.word() ^ uint64_t{1} << bit);
      ASSERT_FALSE(TrailerView::Parse(trailer, other, leaf.geometry()).has_value());
    }
    for (uint32_t bytes = kMinNodeBytes; bytes <= kMaxNodeBytes; bytes *= 2) {
      ASSERT_EQ(TrailerView::Parse(trailer, leaf.leaf, LeafGeometry(bytes)).has_value(),
                bytes == leaf.node_bytes);
    }
  }
}

TEST_F(LeafTest, MixturesOfTwoTrailersAreRejected) {
  for (int i = 0; i < 20; ++i) {
    LeafImage leaf = RandomLeaf(1024);
    const Bytes before = leaf.Trailer(*leaf.TryEncode({}));
    leaf.version = Next(leaf.version);
    if (random.OneIn(2)) leaf.sibling = RemotePtr::FromWord(random.Word());
    const Bytes after = leaf.Trailer(*leaf.TryEncode({}));
    ForEachMixture(before, after, random, 3000, [&](const Bytes& mixture) {
      ASSERT_EQ(leaf.ParseTrailer(mixture).has_value(), mixture == before || mixture == after);
    });
  }
}

TEST(Trailer, RejectsAnotherLevelUnderAValidChecksum) {
  const LeafImage leaf;
  Bytes trailer = leaf.Trailer(*leaf.TryEncode({}));
  for (int level = 0; level < 256; ++level) {
    trailer[12] = std::byte{static_cast<uint8_t>(level)};
    Seal(UnitSeed(leaf.leaf, leaf.geometry().units()), trailer);
    ASSERT_EQ(leaf.ParseTrailer(trailer).has_value(), (level & ~TrailerView::kFrozenBit) == 0);
  }
}

// ---- Placement

TEST_F(LeafTest, EveryKeyIsFoundAtHomeOrInTheOverflowGroup) {
  for (int i = 0; i < 300; ++i) {
    const StoreParameters p = RandomParameters();
    const LeafImage leaf = RandomLeaf(p.node_bytes);
    const LeafGeometry geometry = leaf.geometry();
    const Content content = Fill(leaf, Shape::Any(random, p));
    const auto image = leaf.TryEncode(EntriesOf(content));
    ASSERT_TRUE(image.has_value());
    const auto view = leaf.Parse(*image);
    ASSERT_TRUE(view.has_value());
    ASSERT_EQ(view->version(), leaf.version);
    ASSERT_EQ(view->high(), leaf.range.high);
    ASSERT_EQ(view->trailer().sibling(), leaf.sibling);
    ASSERT_EQ(view->count(), content.size());
    std::vector<Entry> all;
    KeyArena keys;
    view->AppendTo(all, keys);
    ASSERT_EQ(ContentOf(all), content);

    std::set<uint32_t> overflowed;
    for (const auto& [key, stored] : content) {
      const uint32_t home = geometry.GroupOf(KeyHash(key));
      auto found = view->unit(home).Find(key);
      if (!found) {
        found = view->overflow().Find(key);
        overflowed.insert(home);
      }
      ASSERT_TRUE(found.has_value());
      ASSERT_EQ(found->stored, stored.bytes);
    }
    for (uint32_t unit = 0; unit < geometry.units(); ++unit) {
      ASSERT_EQ(view->unit(unit).overflowed(), overflowed.contains(unit));
      ASSERT_EQ(view->unit(unit).high(), leaf.range.high);
    }
  }
}

TEST(FirstRoot, IsAnEmptyLeafWithoutFences) {
  for (uint32_t bytes = kMinNodeBytes; bytes <= kMaxNodeBytes; bytes *= 2) {
    const StoreParameters parameters{bytes, 16, 16};
    Bytes region(kHeapOffset);
    WriteFirstRoot(region, parameters);
    uint64_t word = 0;
    std::memcpy(&word, region.data() + kRootWordOffset, sizeof word);
    const RootWord root = RootWord::FromWord(word);
    EXPECT_EQ(word, kFirstLeafOffset);
    EXPECT_EQ(root.level(), 0u);
    const auto leaf = LeafView::Parse(std::span(region).subspan(root.pointer().offset(), bytes),
                                      root.pointer(), LeafGeometry(bytes), "");
    ASSERT_TRUE(leaf.has_value());
    EXPECT_EQ(leaf->count(), 0u);
    EXPECT_EQ(leaf->version(), NodeVersion{1});
    EXPECT_TRUE(leaf->high().infinite);
    EXPECT_TRUE(leaf->trailer().low().Matches(""));
    EXPECT_TRUE(leaf->trailer().sibling().is_null());
  }
}

// ---- Rejection

TEST_F(LeafTest, RejectsEverySingleBitErrorButInThePadding) {
  for (uint32_t bytes = kMinNodeBytes; bytes <= 1024; bytes *= 2) {
    const LeafImage leaf = RandomLeaf(bytes);
    const LeafGeometry geometry = leaf.geometry();
    const Content content = Fill(leaf, {.max_key = 16});
    ForEachBitFlip(*leaf.TryEncode(EntriesOf(content)), [&](const Bytes& image, size_t bit) {
      const bool padding =
          bit / 8 >= geometry.unit_offset(geometry.units()) && bit / 8 < geometry.trailer_offset();
      ASSERT_EQ(leaf.Parse(image).has_value(), padding) << bit;
    });
  }
}

TEST_F(LeafTest, RejectsAnotherPlace) {
  const LeafImage leaf = RandomLeaf(512);
  const Bytes image = *leaf.TryEncode({});
  for (int bit = 0; bit < 64; ++bit) {
    const auto other = RemotePtr::FromWord(leaf.leaf.word() ^ uint64_t{1} << bit);
    ASSERT_FALSE(LeafView::Parse(image, other, leaf.geometry(), leaf.range.low).has_value());
  }
}

// Each unit of a mixture is the old one, the new one or rejected. A leaf is accepted only if all
// units agree (rule R2).
TEST_F(LeafTest, MixturesAcrossASplitAreOneOfTheTwo) {
  for (int i = 0; i < 5; ++i) {
    LeafImage leaf = RandomLeaf(512);
    Content content = Fill(leaf, {.max_key = 12});
    const Bytes before = *leaf.TryEncode(EntriesOf(content));
    while (content.size() > 3) content.erase(std::prev(content.end()));
    leaf.version = Next(leaf.version);
    leaf.range.high =
        HighFence::At(content.empty() ? leaf.range.low + "a" : content.rbegin()->first + '\0');
    leaf.sibling = RemotePtr::FromWord(random.Word());
    const Bytes after = *leaf.TryEncode(EntriesOf(content));
    ForEachMixture(before, after, random, 3000, [&](const Bytes& mixture) {
      for (uint32_t unit = 0; unit < leaf.geometry().units(); ++unit) {
        const Bytes part = leaf.Unit(mixture, unit);
        ASSERT_EQ(GroupView::Parse(part, leaf.leaf, unit, leaf.range.low).has_value(),
                  part == leaf.Unit(before, unit) || part == leaf.Unit(after, unit));
      }
      ASSERT_EQ(leaf.Parse(mixture).has_value(), mixture == before || mixture == after);
    });
  }
}

// Without a structural change the units are independent: a leaf may have some old and some new.
TEST_F(LeafTest, MixturesAcrossUpdatesAreOneOfTheTwoPerUnit) {
  for (int i = 0; i < 5; ++i) {
    const LeafImage leaf = RandomLeaf(512);
    Content content = Fill(leaf, {.max_value = 16, .uniform_values = true});
    const Bytes before = *leaf.TryEncode(EntriesOf(content));
    for (auto& [key, stored] : content) stored.bytes = random.String(16);
    const Bytes after = *leaf.TryEncode(EntriesOf(content));
    ForEachMixture(before, after, random, 3000, [&](const Bytes& mixture) {
      bool whole = leaf.Trailer(mixture) == leaf.Trailer(before);
      for (uint32_t unit = 0; unit < leaf.geometry().units(); ++unit) {
        const Bytes part = leaf.Unit(mixture, unit);
        whole &= part == leaf.Unit(before, unit) || part == leaf.Unit(after, unit);
      }
      ASSERT_EQ(leaf.Parse(mixture).has_value(), whole);
    });
  }
}

// Whole old and new units are each valid, and rejected together.
TEST_F(LeafTest, WholeUnitsOfTwoVersionsAreRejectedTogether) {
  LeafImage leaf = RandomLeaf(1024);
  const Bytes before = *leaf.TryEncode({});
  leaf.version = Next(leaf.version);
  const Bytes after = *leaf.TryEncode({});
  const LeafGeometry geometry = leaf.geometry();
  for (uint32_t mask = 0; mask < 1u << (geometry.units() + 1); ++mask) {
    Bytes mixture = before;
    for (uint32_t unit = 0; unit <= geometry.units(); ++unit) {
      if ((mask >> unit & 1) == 0) continue;
      const size_t from =
          unit < geometry.units() ? geometry.unit_offset(unit) : size_t{geometry.trailer_offset()};
      const size_t size = unit < geometry.units() ? geometry.unit_bytes() : kTrailerBytes;
      std::memcpy(mixture.data() + from, after.data() + from, size);
    }
    const bool one_version = mask == 0 || mask == (1u << (geometry.units() + 1)) - 1;
    ASSERT_EQ(leaf.Parse(mixture).has_value(), one_version) << mask;
  }
}

}  // namespace
}  // namespace gossamer
