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

}  // namespace internal

inline uint32_t Crc32c(uint32_t seed, std::span<const std::byte> bytes) {
  uint32_t crc = ~seed;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    crc = internal::Crc32cWord(crc, word);
  }
  for (; left != 0; ++at, --left) crc = internal::Crc32cByte(crc, static_cast<uint8_t>(*at));
  return ~crc;
}

// The seed of a value block's checksum, from the pointer with its generation (rule R1).
inline uint32_t BlockSeed(uint64_t pointer_word) {
  return internal::Crc32cWord(internal::Crc32cWord(0x47534d52u, pointer_word), 0);
}

}  // namespace gossamer
