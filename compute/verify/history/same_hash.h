// Keys that have one KeyHash. A leaf finds long keys by that, so they are the hardest.
//
// Thread-safety: pure functions.
#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "proto/key.h"

namespace gossamer::history {

// Returns `front` and the word of 8 bytes behind it that gives the key the hash which `other` and a
// word of zeros have. KeyHash folds one word after the other into its state by a bijection: so the
// last word can make up for any other.
// Requires: both have one length, a multiple of 8.
inline std::string WithHashOf(std::string_view other, std::string_view front) {
  assert(other.size() == front.size() && other.size() % sizeof(uint64_t) == 0);
  // KeyHash ends with the image of the state before a last word of zeros.
  const auto state_behind = [](std::string_view text) {
    const auto unshift = [](uint64_t value) { return value ^ value >> 33; };
    uint64_t hash = KeyHash(std::string(text) + std::string(sizeof(uint64_t), '\0'));
    hash = unshift(hash) * 0x9cb4b2f8129337dbu;  // the inverses of KeyHash's factors
    hash = unshift(hash) * 0x4f74430c22a54005u;
    return unshift(hash);
  };
  const uint64_t last = state_behind(other) ^ state_behind(front);
  std::string key(front);
  key.append(reinterpret_cast<const char*>(&last), sizeof last);
  return key;
}

}  // namespace gossamer::history
