// Built twice: with the processor's CRC instructions, and without them (crc32c_table_test), so that
// the same constants pin both to the same function.
#include "proto/crc32c.h"

#include "proto/test_support.h"

namespace gossamer {
namespace {

using test::Bytes;
using test::BytesOf;

// Bit by bit, from the polynomial alone.
uint32_t SlowCrc32c(uint32_t seed, std::span<const std::byte> bytes) {
  uint32_t crc = ~seed;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

TEST(Crc32c, KnownVectors) {  // RFC 3720, B.4
  Bytes rising(32);
  Bytes falling(32);
  for (uint8_t i = 0; i < 32; ++i) {
    rising[i] = std::byte{i};
    falling[31u - i] = std::byte{i};
  }
  EXPECT_EQ(Crc32c(0, Bytes(32)), 0x8a9136aau);
  EXPECT_EQ(Crc32c(0, Bytes(32, std::byte{0xff})), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(0, rising), 0x46dd794eu);
  EXPECT_EQ(Crc32c(0, falling), 0x113fdb5cu);
  EXPECT_EQ(Crc32c(0, BytesOf("123456789")), 0xe3069283u);
  EXPECT_EQ(Crc32c(0x1234, BytesOf("abc")), 0x21f3dc5cu);
}

TEST(Crc32c, OfNothingIsTheSeed) {
  EXPECT_EQ(Crc32c(0, {}), 0u);
  EXPECT_EQ(Crc32c(0xdeadbeef, {}), 0xdeadbeefu);
}

class Crc32cTest : public test::SeededTest {};

TEST_F(Crc32cTest, AgreesWithThePolynomialAtEveryLengthAndAlignment) {
  const std::string text = random.String(300);
  const std::span<const std::byte> bytes = BytesOf(text);
  for (size_t from = 0; from < 9; ++from) {
    for (size_t size = 0; from + size <= bytes.size(); ++size) {
      const auto seed = static_cast<uint32_t>(random.Word());
      const auto part = bytes.subspan(from, size);
      ASSERT_EQ(Crc32c(seed, part), SlowCrc32c(seed, part)) << from << "+" << size;
    }
  }
}

// Around the lengths at which lanes begin.
TEST_F(Crc32cTest, AgreesWithThePolynomialAtLongLengths) {
  const std::string text = random.String(2'000);
  const std::span<const std::byte> bytes = BytesOf(text);
  for (const size_t size :
       {183, 191, 192, 193, 384, 575, 576, 767, 768, 769, 959, 960, 1'000, 1'535, 1'536, 1'900}) {
    const auto seed = static_cast<uint32_t>(random.Word());
    const auto part = bytes.subspan(size % 9, size);
    ASSERT_EQ(Crc32c(seed, part), SlowCrc32c(seed, part)) << size;
  }
}

TEST_F(Crc32cTest, ChainsAtEveryCut) {
  const std::string text = random.String(200);
  const std::span<const std::byte> bytes = BytesOf(text);
  const uint32_t whole = Crc32c(7, bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    ASSERT_EQ(Crc32c(Crc32c(7, bytes.first(cut)), bytes.subspan(cut)), whole) << cut;
  }
}

TEST_F(Crc32cTest, InstructionsAgreeWithTheTable) {
  for (int i = 0; i < 10000; ++i) {
    const auto crc = static_cast<uint32_t>(random.Word());
    const uint64_t word = random.Word();
    uint32_t expected = crc;
    for (int byte = 0; byte < 8; ++byte) {
      const auto value = static_cast<uint8_t>(word >> (8 * byte));
      ASSERT_EQ(internal::Crc32cByte(expected, value),
                internal::kCrc32cTable[(expected ^ value) & 0xff] ^ (expected >> 8));
      expected = internal::Crc32cByte(expected, value);
    }
    ASSERT_EQ(internal::Crc32cWord(crc, word), expected);
  }
}

TEST(BlockSeed, GoldenValues) {
  EXPECT_EQ(BlockSeed(0), 0x8bab4c85u);
  EXPECT_NE(BlockSeed(0x0003000000012307), BlockSeed(0x0003000000012308));
}

}  // namespace
}  // namespace gossamer
