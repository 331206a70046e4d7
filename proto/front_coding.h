// Front coding: keys in rising order, each stored without the bytes that it shares with the one
// before.
//
// A stored key is | shared 1 | length 1 | suffix |: the first `shared` bytes of the key before, and
// then the suffix. `shared` is the longest common prefix, so keys have one encoding only. Behind
// each are 8 bytes of the caller: they make it safe to load and store 8 bytes of a shorter suffix.
// Cost: no allocation, and no call for a key where 8 bytes suffice.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "proto/key.h"

namespace gossamer {

inline constexpr uint32_t kLengthsBytes = 2;  // before a suffix
inline constexpr uint32_t kBehindKey = 8;     // of the caller
static_assert(kMaxKeyBytes <= 0xff && kMaxKeyBytes >= sizeof(uint64_t));

namespace internal {

// FirstBytes(key). Without a branch: a Key has room for 8 bytes, and is followed by zeros if it is
// shorter.
inline uint64_t FirstBytesIn(const Key& key) {
  uint64_t word;
  std::memcpy(&word, key.view().data(), sizeof word);
  return word;
}

}  // namespace internal

// CommonBytes(a, b), without a loop where 8 bytes suffice.
inline uint32_t SharedBytes(const Key& a, const Key& b) {
  const size_t limit = std::min(a.size(), b.size());
  const uint64_t difference = internal::FirstBytesIn(a) ^ internal::FirstBytesIn(b);
  const auto common = static_cast<size_t>(std::countr_zero(difference)) / 8;
  const bool is_longer = difference == 0 && limit > sizeof difference;
  return static_cast<uint32_t>(is_longer ? CommonBytes(a, b) : std::min(limit, common));
}

// Writes the bytes of `key` behind the first `shared` ones to `at`. Returns their end.
inline std::byte* AppendSuffix(std::byte* at, const Key& key, uint32_t shared) {
  constexpr size_t kWord = sizeof(uint64_t);
  const size_t length = key.size() - shared;
  const uint64_t word = key.size() <= kWord ? internal::FirstBytesIn(key) >> (8 * shared & 63)
                                            : FirstBytesBehind(key, shared);
  std::memcpy(at, &word, kWord);
  if (length > kWord) {
    std::memcpy(at + kWord, key.view().data() + shared + kWord, length - kWord);
  }
  return at + length;
}

// The same, with both lengths before them.
inline std::byte* AppendFrontCoded(std::byte* at, const Key& key, uint32_t shared) {
  at[0] = static_cast<std::byte>(shared);
  at[1] = static_cast<std::byte>(key.size() - shared);
  return AppendSuffix(at + kLengthsBytes, key, shared);
}

// A stored key.
struct Suffix {
  const char* data;
  uint32_t shared;
  uint32_t length;

  static Suffix At(const char* at) {
    return {at + kLengthsBytes, static_cast<uint8_t>(at[0]), static_cast<uint8_t>(at[1])};
  }

  KeyView view() const { return {data, length}; }
  const char* end() const { return data + length; }
  uint32_t key_bytes() const { return shared + length; }
  // The first 8 bytes; those behind the suffix are any.
  uint64_t first_bytes() const {
    uint64_t word;
    std::memcpy(&word, data, sizeof word);
    return word;
  }
  // KeyPrefix(view()).
  uint64_t prefix() const { return __builtin_bswap64(first_bytes() & FirstBytesMask(length)); }
};

// Rebuilds stored keys, one after the other.
class KeyRebuilder {
 public:
  // `first`: the key before the first stored one.
  explicit KeyRebuilder(KeyView first) : first_bytes_(FirstBytes(first)) {
    first.copy(bytes_.data(), first.size());
  }

  // Returns the next key, valid until the call after. Requires: it has at most kMaxKeyBytes, and
  // the one before has the bytes that it shares.
  KeyView Next(const Suffix& suffix) {
    assert(suffix.key_bytes() <= kMaxKeyBytes);
    const uint64_t word = suffix.first_bytes();
    char* const to = bytes_.data() + suffix.shared;
    std::memcpy(to, &word, kWord);
    if (suffix.length > kWord) {
      std::memcpy(to + kWord, suffix.data + kWord, suffix.length - kWord);
    }
    // Again, in one store: to load 8 bytes that two stores wrote stalls on store forwarding.
    if (suffix.shared < kWord) {
      first_bytes_ = (first_bytes_ & FirstBytesMask(suffix.shared)) | word << (8 * suffix.shared);
    }
    std::memcpy(bytes_.data(), &first_bytes_, kWord);
    return {bytes_.data(), suffix.key_bytes()};
  }

 private:
  static constexpr size_t kWord = sizeof(uint64_t);

  std::array<char, kMaxKeyBytes + kWord> bytes_;  // a store of 8 bytes may end behind the key
  uint64_t first_bytes_;
};

// Where a key is, or would be, among stored ones.
struct KeyPlace {
  const char* at;   // of the first one that is the key or above, or the end
  uint32_t shared;  // bytes of the key that the one before shares
  uint32_t more;    // further bytes of the key that the one at `at` shares
};

// Finds the place of `key` in [at, end). Compares only suffixes that follow what is shared with the
// key.
// `first`: the key before the first stored one. Requires: first < key.
inline KeyPlace FindPlace(KeyView key, KeyView first, const char* at, const char* end) {
  assert(first < key);
  auto shared = static_cast<uint32_t>(CommonBytes(first, key));
  uint64_t prefix = KeyPrefix(key.substr(shared));
  while (at != end) {
    const Suffix suffix = Suffix::At(at);
    // The one before is below the key. Here this one is above it where the key still equals it.
    if (suffix.shared < shared) return {at, shared, 0};
    // With more shared bytes, this one differs from the key where the one before does.
    if (suffix.shared == shared) {
      const KeyView rest = key.substr(shared);
      const uint64_t other = suffix.prefix();
      const auto common = static_cast<size_t>(std::countl_zero(prefix ^ other)) / 8;
      size_t more = std::min({common, suffix.view().size(), rest.size()});
      if (other == prefix) more = CommonBytes(suffix.view(), rest);
      if (other > prefix || (other == prefix && suffix.view() >= rest)) {
        return {at, shared, static_cast<uint32_t>(more)};
      }
      shared += static_cast<uint32_t>(more);
      if (more != 0) prefix = KeyPrefix(key.substr(shared));
    }
    at = suffix.end() + kBehindKey;
  }
  return {end, shared, 0};
}

}  // namespace gossamer
