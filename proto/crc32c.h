// CRC32C (Castagnoli), seeded: the checksum of value blocks and of the region header, and half of a
// Checksum.
//
// Source: RFC 3720 appendix B.4 for the polynomial. The SSE4.2 and ARMv8 CRC instructions compute
// it in hardware. `Crc32c(seed, bytes)` chains: Crc32c(Crc32c(s, a), b) == Crc32c(s, a+b).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace gossamer {

static_assert(std::endian::native == std::endian::little,
              "remote memory is little-endian; a big-endian host would need swaps in every view");

namespace internal {

constexpr std::array<uint32_t, 256> MakeCrc32cTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}
inline constexpr std::array<uint32_t, 256> kCrc32cTable = MakeCrc32cTable();

inline uint32_t Crc32cByte(uint32_t crc, uint8_t byte) {
#if defined(__SSE4_2__)
  return _mm_crc32_u8(crc, byte);
#elif defined(__ARM_FEATURE_CRC32)
  return __crc32cb(crc, byte);
#else
  return kCrc32cTable[(crc ^ byte) & 0xff] ^ (crc >> 8);
#endif
}

// `crc` is a CRC in a register, as the instruction takes it: no conversion between two of them.
inline uint64_t Crc32cStep(uint64_t crc, uint64_t word) {
#if defined(__SSE4_2__)
  return _mm_crc32_u64(crc, word);
#elif defined(__ARM_FEATURE_CRC32)
  return __crc32cd(static_cast<uint32_t>(crc), word);
#else
  auto sum = static_cast<uint32_t>(crc);
  for (int i = 0; i < 8; ++i) sum = Crc32cByte(sum, static_cast<uint8_t>(word >> (8 * i)));
  return sum;
#endif
}
inline uint32_t Crc32cWord(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(Crc32cStep(crc, word));
}
inline uint64_t Crc32cStepAt(uint64_t crc, const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return Crc32cStep(crc, word);
}

// What `Bytes` zeros behind make of a CRC. That is linear: the sum (XOR) of what they make of each
// of its digits of four bits.
template <size_t Bytes>
class Crc32cZeros {
 public:
  static uint32_t Behind(uint32_t crc) {
    uint32_t sum = 0;
    for (size_t digit = 0; digit < kDigits; ++digit) {
      sum ^= kOfDigit[digit][(crc >> (4 * digit)) % kValues];
    }
    return sum;
  }

 private:
  static constexpr size_t kDigits = 8;
  static constexpr size_t kValues = 16;
  using Table = std::array<std::array<uint32_t, kValues>, kDigits>;

  static constexpr Table MakeTable() {
    Table table{};
    for (size_t digit = 0; digit < kDigits; ++digit) {
      for (uint32_t value = 0; value < kValues; ++value) {
        uint32_t crc = value << (4 * digit);
        for (size_t i = 0; i < Bytes; ++i) crc = kCrc32cTable[crc & 0xff] ^ (crc >> 8);
        table[digit][value] = crc;
      }
    }
    return table;
  }
  static constexpr Table kOfDigit = MakeTable();
};

// Takes three lanes of `Lane` bytes from `bytes` as long as there are so many. The instruction for
// one word takes three cycles but starts in each: so the lanes have CRCs of their own at first.
// Source: Gopal et al., Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction, Intel
// 2011.
template <size_t Lane>
inline uint32_t Crc32cLanes(uint32_t crc, std::span<const std::byte>& bytes) {
  static_assert(Lane % sizeof(uint64_t) == 0);
  for (; bytes.size() >= 3 * Lane; bytes = bytes.subspan(3 * Lane)) {
    uint64_t first = crc;
    uint64_t second = 0;
    uint64_t third = 0;
    for (const std::byte* at = bytes.data(); at != bytes.data() + Lane; at += sizeof(uint64_t)) {
      first = Crc32cStepAt(first, at);
      second = Crc32cStepAt(second, at + Lane);
      third = Crc32cStepAt(third, at + 2 * Lane);
    }
    const auto behind = [](uint64_t sum) {
      return Crc32cZeros<Lane>::Behind(static_cast<uint32_t>(sum));
    };
    crc = static_cast<uint32_t>(behind(behind(first) ^ second) ^ third);
  }
  return crc;
}

}  // namespace internal

inline uint32_t Crc32c(uint32_t seed, std::span<const std::byte> bytes) {
  uint32_t crc = ~seed;
  crc = internal::Crc32cLanes<256>(crc, bytes);
  crc = internal::Crc32cLanes<64>(crc, bytes);
  constexpr size_t kWord = sizeof(uint64_t);
  for (; bytes.size() >= kWord; bytes = bytes.subspan(kWord)) {
    crc = static_cast<uint32_t>(internal::Crc32cStepAt(crc, bytes.data()));
  }
  for (const std::byte byte : bytes) crc = internal::Crc32cByte(crc, static_cast<uint8_t>(byte));
  return ~crc;
}

// The seed of a value block's checksum, from the pointer with its generation (rule R1).
inline uint32_t BlockSeed(uint64_t pointer_word) {
  return internal::Crc32cWord(internal::Crc32cWord(0x47534d52u, pointer_word), 0);
}

}  // namespace gossamer
