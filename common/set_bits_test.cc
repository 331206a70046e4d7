#include "common/set_bits.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace gossamer {
namespace {

template <std::unsigned_integral Word>
std::vector<uint32_t> Numbers(Word word) {
  std::vector<uint32_t> numbers;
  for (const uint32_t number : SetBits(word)) numbers.push_back(number);
  return numbers;
}

TEST(SetBitsTest, GivesEachBitOnceFromTheLowest) {
  EXPECT_EQ(Numbers(uint32_t{0}), std::vector<uint32_t>{});
  EXPECT_EQ(Numbers(uint32_t{0b1011'0001}), (std::vector<uint32_t>{0, 4, 5, 7}));
  EXPECT_EQ(Numbers(uint64_t{1} << 63 | uint64_t{1} << 32), (std::vector<uint32_t>{32, 63}));
  EXPECT_EQ(Numbers(std::numeric_limits<uint64_t>::max()).size(), 64u);
}

// A word that the body changes is not read again.
TEST(SetBitsTest, TakesTheWordAsItWas) {
  uint32_t word = 0b110;
  std::vector<uint32_t> numbers;
  for (const uint32_t number : SetBits(word)) {
    word &= word - 1;
    numbers.push_back(number);
  }
  EXPECT_EQ(numbers, (std::vector<uint32_t>{1, 2}));
}

}  // namespace
}  // namespace gossamer
