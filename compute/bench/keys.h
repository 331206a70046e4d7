// The keys and values of benchmark records.
//
// A record has an id: 0, 1, 2, ... in insertion order. Its key is made from the *mixed* id, so that
// consecutive ids have keys in random order, as with YCSB's hashed inserts. Mixing is a bijection:
// no two records share a key.
//
//   key_bytes 4..8    the mixed id of 8 * key_bytes bits, big-endian
//   key_bytes 9..32   "user" and the mixed id in decimal, padded with zeros on the left: 19 digits
//                     hold 63 bits; fewer digits hold floor(digits * log2(10)) bits
//
// A value is a stream of pseudo-random bytes from the record's id and the seed: a record has the
// same value in every run with that seed.
//
// Thread-safety: immutable.
// Cost: nothing here allocates.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "common/random.h"

namespace gossamer::bench {

inline constexpr uint32_t kMinBenchKeyBytes = 4;
inline constexpr uint32_t kMaxBenchKeyBytes = 32;

// A bijection on numbers of `bits` bits: shifts and odd multipliers, each of which is invertible.
constexpr uint64_t MixBits(uint64_t id, uint32_t bits) {
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint32_t half = (bits + 1) / 2;
  uint64_t mixed = (id + 0x9e3779b97f4a7c15) & mask;
  for (int round = 0; round < 2; ++round) {
    mixed ^= mixed >> half;
    mixed = (mixed * 0xd6e8feb86659fd93) & mask;
  }
  return mixed ^ (mixed >> half);
}

// The id that MixBits has mixed, step by step backwards.
constexpr uint64_t UnmixBits(uint64_t mixed, uint32_t bits) {
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint32_t half = (bits + 1) / 2;
  uint64_t inverse = 1;  // of the multiplier, by Newton's method
  for (int i = 0; i < 6; ++i) inverse *= 2 - 0xd6e8feb86659fd93 * inverse;
  mixed ^= mixed >> half;
  for (int round = 0; round < 2; ++round) {
    mixed = (mixed * inverse) & mask;
    mixed ^= mixed >> half;
  }
  return (mixed - 0x9e3779b97f4a7c15) & mask;
}

using KeyBuffer = std::array<char, kMaxBenchKeyBytes>;

class KeyCodec {
 public:
  // Requires: kMinBenchKeyBytes <= key_bytes <= kMaxBenchKeyBytes.
  constexpr explicit KeyCodec(uint32_t key_bytes)
      : key_bytes_(key_bytes), bits_(key_bytes <= 8 ? key_bytes * 8 : DecimalBits(key_bytes - 4)) {}

  uint32_t key_bytes() const { return key_bytes_; }
  // Ids below 2^bits have distinct keys.
  uint32_t bits() const { return bits_; }
  bool HasKeysFor(uint64_t records) const {
    return bits_ == 64 || records <= (uint64_t{1} << bits_);
  }

  // Writes a record's key to `buffer`.
  std::string_view Encode(uint64_t id, KeyBuffer& buffer) const {
    uint64_t mixed = MixBits(id, bits_);
    if (key_bytes_ <= 8) {
      // One store: a load of the key as a word is forwarded from it.
      const uint64_t word = __builtin_bswap64(mixed << (64 - bits_));
      std::memcpy(buffer.data(), &word, sizeof word);
    } else {
      std::memcpy(buffer.data(), "user", 4);
      uint32_t at = key_bytes_;
      for (; mixed != 0; mixed /= 10) buffer[--at] = static_cast<char>('0' + mixed % 10);
      std::memset(buffer.data() + 4, '0', at - 4);
    }
    return {buffer.data(), key_bytes_};
  }

 private:
  static constexpr uint32_t DecimalBits(uint32_t digits) {
    uint64_t power = 1;
    for (uint32_t i = 0; i < std::min(digits, 19u); ++i) power *= 10;
    return std::min(static_cast<uint32_t>(std::bit_width(power)) - 1, 63u);
  }

  uint32_t key_bytes_;
  uint32_t bits_;
};

// Fills `value` with the bytes of a record.
inline void FillValue(uint64_t id, uint64_t seed, std::span<char> value) {
  SplitMix64 source(SplitMix64::Mix(seed) ^ id);
  for (; value.size() >= sizeof(uint64_t); value = value.subspan(sizeof(uint64_t))) {
    const uint64_t word = source.Next();
    std::memcpy(value.data(), &word, sizeof word);  // of known size: one store
  }
  if (value.empty()) return;
  const uint64_t word = source.Next();
  std::memcpy(value.data(), &word, value.size());
}

}  // namespace gossamer::bench
