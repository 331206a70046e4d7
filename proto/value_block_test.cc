#include "proto/value_block.h"

#include "proto/test_support.h"

namespace gossamer {
namespace {

using test::Bytes;
using test::BytesOf;
using test::ForEachBitFlip;
using test::ForEachMixture;
using test::ToHex;

constexpr BlockPtr kPointer(ServerId{3}, 0x45640, 9);

struct Block {
  Bytes bytes;
  BlockRef ref;
};

Block Encode(std::string_view value, BlockPtr pointer = kPointer) {
  Block block;
  block.bytes.resize(BlockReadBytes(static_cast<uint32_t>(value.size())));
  block.ref = EncodeBlock(pointer, value, block.bytes.data());
  return block;
}

TEST(ValueBlock, GoldenBytes) {
  const Block block = Encode("hello");
  EXPECT_EQ(ToHex(block.bytes), "315f552c0500000068656c6c6f");
  EXPECT_EQ(ToHex(BytesOf(block.ref)), "495604000000030005000000315f552c");
}

class ValueBlockTest : public test::SeededTest {};

struct LongBlock {
  LongRef ref;
  Bytes bytes;
};

LongBlock EncodeLong(KeyView key, std::string_view value) {
  LongBlock block{{}, Bytes(BlockReadBytes(LongContentBytes(key, value)), std::byte{0xee})};
  block.ref = EncodeLongBlock(kPointer, key, value, block.bytes.data());
  return block;
}

TEST_F(ValueBlockTest, LongKeysComeBackWithAndWithoutTheirValues) {
  for (const uint32_t key_bytes : {0u, 1u, 100u, kMaxKeyBytes}) {
    for (const uint32_t value_bytes : {0u, 1u, 100u, 400u, kMaxValueBytes}) {
      const std::string key = random.String(key_bytes);
      const std::string value = random.String(value_bytes);
      const LongBlock block = EncodeLong(key, value);
      EXPECT_EQ(block.ref.key_hash, KeyHash(key));
      const auto content = DecodeBlock(block.ref.block, block.bytes);
      ASSERT_TRUE(content.has_value());
      const auto parts = SplitLongContent(*content);
      ASSERT_TRUE(parts.has_value());
      EXPECT_EQ(parts->key, key);
      EXPECT_EQ(parts->value, value);
      const uint32_t front = LongKeyReadBytes(block.ref.block);
      ASSERT_LE(front, block.bytes.size());
      EXPECT_EQ(DecodeLongKey(block.ref.block, std::span(block.bytes).first(front)), key);
    }
  }
}

TEST_F(ValueBlockTest, RejectsEveryBitErrorInFrontOfAndInALongKey) {
  const std::string key = random.String(30);
  const LongBlock block = EncodeLong(key, "value");
  ForEachBitFlip(block.bytes, [&](const Bytes& image, size_t bit) {
    const bool is_value = bit / 8 >= image.size() - 5;
    ASSERT_EQ(DecodeLongKey(block.ref.block, image).has_value(), is_value) << bit;
    ASSERT_FALSE(DecodeBlock(block.ref.block, image).has_value()) << bit;
  });
  for (size_t bytes = 0; bytes < block.bytes.size(); ++bytes) {
    ASSERT_FALSE(DecodeLongKey(block.ref.block, std::span(block.bytes).first(bytes)).has_value());
  }
  EXPECT_FALSE(SplitLongContent("").has_value());
  EXPECT_FALSE(SplitLongContent(std::string("1234\xff") + std::string(254, 'k')).has_value());
  EXPECT_FALSE(SplitLongContent(std::string("1234\x02k")).has_value());
}

TEST_F(ValueBlockTest, EverythingComesBack) {
  for (const uint32_t length : {0u, 1u, 17u, 64u, 1000u, 65536u, kMaxValueBytes}) {
    const std::string value = random.String(length);
    const Block block = Encode(value);
    ASSERT_EQ(DecodeBlock(block.ref, block.bytes), value);
  }
}

TEST(ValueBlock, TakesAViewOfNothing) {
  const Block block = Encode(std::string_view());
  EXPECT_EQ(DecodeBlock(block.ref, block.bytes), "");
}

TEST_F(ValueBlockTest, RejectsEverySingleBitErrorInBlockAndReference) {
  for (const uint32_t length : {0u, 1u, 100u}) {
    const Block block = Encode(random.String(length));
    ForEachBitFlip(block.bytes, [&](const Bytes& image, size_t bit) {
      ASSERT_FALSE(DecodeBlock(block.ref, image).has_value()) << bit;
    });
    const auto ref = BytesOf(block.ref);
    ForEachBitFlip({ref.begin(), ref.end()}, [&](const Bytes& image, size_t bit) {
      BlockRef other;
      std::memcpy(&other, image.data(), sizeof other);
      ASSERT_FALSE(DecodeBlock(other, block.bytes).has_value()) << bit;
    });
  }
}

TEST_F(ValueBlockTest, RejectsOtherGenerationsAndOtherSizes) {
  const std::string value = random.String(100);
  const Block block = Encode(value);
  for (BlockPtr other = kPointer.NextGeneration(); other != kPointer;
       other = other.NextGeneration()) {
    const Block reused = Encode(value, other);
    ASSERT_FALSE(DecodeBlock(block.ref, reused.bytes).has_value());
    ASSERT_FALSE(DecodeBlock({other.word(), 100, block.ref.checksum}, block.bytes).has_value());
  }
  for (const size_t size : {0u, 7u, 8u, 107u, 109u, 128u}) {
    Bytes bytes = block.bytes;
    bytes.resize(size);
    ASSERT_FALSE(DecodeBlock(block.ref, bytes).has_value());
  }
}

// The memory of a block is used again while a slow client reads it.
TEST_F(ValueBlockTest, MixturesOfTwoUsesAreRejected) {
  for (int i = 0; i < 20; ++i) {
    const std::string value = random.String(150);
    const Block before = Encode(value);
    const Block after =
        Encode(random.OneIn(2) ? value : random.String(150), kPointer.NextGeneration());
    ForEachMixture(before.bytes, after.bytes, random, 2000, [&](const Bytes& mixture) {
      ASSERT_EQ(DecodeBlock(before.ref, mixture).has_value(), mixture == before.bytes);
      ASSERT_EQ(DecodeBlock(after.ref, mixture).has_value(), mixture == after.bytes);
    });
  }
}

TEST(ValueBlock, RejectsReferencesToValuesLongerThanThereAre) {
  constexpr uint32_t kLength = kMaxContentBytes + 1;
  Bytes bytes(BlockReadBytes(kLength));
  std::memcpy(bytes.data() + 4, &kLength, 4);
  const uint32_t checksum = Crc32c(BlockSeed(kPointer.word()), std::span(bytes).subspan(4));
  std::memcpy(bytes.data(), &checksum, 4);
  EXPECT_FALSE(DecodeBlock({kPointer.word(), kLength, checksum}, bytes).has_value());
}

// BlockReadBytes(2^32 - 1) is 7 in 32 bits: less than a header.
TEST(ValueBlock, RejectsReferencesWhoseLengthOverflows) {
  for (uint32_t less = 1; less <= 8; ++less) {
    const uint32_t length = 0u - less;
    const Bytes bytes(BlockReadBytes(length));
    ASSERT_EQ(bytes.size(), 8 - less);
    ASSERT_FALSE(DecodeBlock({kPointer.word(), length, 0}, bytes).has_value());
  }
}

TEST(BlockBytes, FitAndRiseAndWasteLittle) {
  uint32_t previous = 0;
  for (uint32_t length = 0; length <= kMaxValueBytes; ++length) {
    const uint32_t bytes = BlockBytes(length);
    const uint32_t needed = BlockReadBytes(length);
    ASSERT_GE(bytes, needed);
    ASSERT_GE(bytes, previous);
    ASSERT_EQ(bytes % kBlockAlignment, 0u);
    ASSERT_LE(bytes - needed, std::max<uint32_t>(kBlockAlignment - 1, needed / 4)) << length;
    previous = bytes;
  }
}

TEST(BlockBytes, FormFewClasses) {
  int classes = 0;
  for (uint32_t length = 0, last = 0; length <= kMaxValueBytes; ++length) {
    if (BlockBytes(length) != last) ++classes;
    last = BlockBytes(length);
  }
  EXPECT_EQ(classes, 53);
}

}  // namespace
}  // namespace gossamer
