// Shared by the tests of stored structures: hex, seeded random data, and ways to damage an image.
//
// The seed is fixed, so that runs repeat; GOSSAMER_TEST_SEED sets another one. Every random test
// names its seed on failure (SeededTest).
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace gossamer::test {

using Bytes = std::vector<std::byte>;

inline std::string ToHex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : bytes) {
    hex += kDigits[static_cast<uint8_t>(byte) >> 4];
    hex += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return hex;
}

// The hex of `bytes` up to the last non-zero byte: golden strings contain no padding.
inline std::string ToHexTrimmed(std::span<const std::byte> bytes) {
  while (!bytes.empty() && bytes.back() == std::byte{0}) bytes = bytes.first(bytes.size() - 1);
  return ToHex(bytes);
}

template <typename T>
  requires(!std::is_convertible_v<T, std::string_view>)
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline uint64_t Seed() {
  const char* text = std::getenv("GOSSAMER_TEST_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 0);
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}

  uint64_t Word() { return engine_(); }
  // In [0, limit).
  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(engine_() % limit); }
  // In [low, high].
  uint32_t Between(uint32_t low, uint32_t high) { return low + Below(high - low + 1); }
  bool OneIn(uint32_t n) { return Below(n) == 0; }
  // Any bytes, with many NULs and repeated bytes.
  std::string String(uint32_t length) {
    std::string text(length, '\0');
    for (char& c : text) c = OneIn(2) ? static_cast<char>(Below(3)) : static_cast<char>(Below(256));
    return text;
  }

 private:
  std::mt19937_64 engine_;
};

class SeededTest : public ::testing::Test {
 protected:
  Random random{Seed()};

 private:
  ::testing::ScopedTrace trace_{__FILE__, __LINE__,
                                fmt::format("repeat with GOSSAMER_TEST_SEED={}", Seed())};
};

// Calls check(image, bit) for each single-bit error.
template <typename Check>
void ForEachBitFlip(Bytes image, Check&& check) {
  for (size_t bit = 0; bit < image.size() * 8; ++bit) {
    const std::byte mask{static_cast<uint8_t>(1u << (bit % 8))};
    image[bit / 8] ^= mask;
    check(image, bit);
    image[bit / 8] ^= mask;
  }
}

// Calls check(mixture) for what a READ may see while `after` overwrites `before`: cuts at every
// byte, from either end; then `subsets` mixtures of single bytes, of runs, and of 8- and 64-byte
// pieces.
template <typename Check>
void ForEachMixture(const Bytes& before, const Bytes& after, Random& random, int subsets,
                    Check&& check) {
  ASSERT_EQ(before.size(), after.size());
  Bytes mixture = before;
  for (size_t cut = 0; cut <= before.size(); ++cut) {
    mixture = before;
    std::memcpy(mixture.data(), after.data(), cut);
    check(mixture);
    mixture = after;
    std::memcpy(mixture.data(), before.data(), cut);
    check(mixture);
  }
  constexpr size_t kPieces[] = {1, 2, 4, 8, 16, 64};
  for (int i = 0; i < subsets; ++i) {
    const size_t piece = kPieces[random.Below(std::size(kPieces))];
    const uint32_t rarity = random.Between(2, 8);
    mixture = random.OneIn(2) ? before : after;
    const Bytes& other = random.OneIn(2) ? before : after;
    for (size_t at = 0; at < mixture.size(); at += piece) {
      if (!random.OneIn(rarity)) continue;
      std::memcpy(mixture.data() + at, other.data() + at, std::min(piece, mixture.size() - at));
    }
    check(mixture);
  }
}

}  // namespace gossamer::test
