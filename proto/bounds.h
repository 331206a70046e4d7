// Bounds: range and prefix of a leaf. LAYOUT.md says what they are for.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

#include "proto/key.h"

namespace gossamer {

// What a leaf's prefix is a part of. The numbers are those of the flags' bits 1 and 2.
enum class PrefixOf : uint8_t {
  kBoth = 0,      // it is all that the fences share
  kLowFence = 1,  // of the low fence; longer than what the fences share
  kHighFence =
      2,  // of the high fence; likewise. All of that fence is stored, and so the prefix with it
};

// The prefix of a leaf, if its keys share more than its range.
struct OwnPrefix {
  PrefixOf of = PrefixOf::kBoth;
  size_t bytes = 0;
};

// Range and prefix of a leaf as its units state them.
struct Bounds {
  KeyView prefix;  // of every key in the leaf
  KeyView fence;   // the high fence behind its first `shared` bytes
  bool infinite = true;
  PrefixOf prefix_of = PrefixOf::kBoth;
  uint8_t shared = 0;  // bytes of the prefix that the high fence has and that are not stored

  // They point into the fences. Requires: the fence that `own` names has so many bytes, and is not
  // infinite.
  static Bounds Of(KeyView low, const HighFence& high, const OwnPrefix& own = {}) {
    const KeyView end = high.infinite ? KeyView() : high.key.view();
    assert(own.of == PrefixOf::kBoth ||
           own.bytes <= (own.of == PrefixOf::kHighFence ? end : low).size());
    assert(own.of != PrefixOf::kHighFence || !high.infinite);
    if (own.of == PrefixOf::kHighFence) {
      return {end.substr(0, own.bytes), end, false, own.of, 0};
    }
    const size_t common = high.infinite ? 0 : CommonBytes(low, end);
    const size_t prefix = own.of == PrefixOf::kBoth ? common : own.bytes;
    return {low.substr(0, prefix), end.substr(common), high.infinite, own.of,
            static_cast<uint8_t>(common)};
  }

  // What a unit has behind its header and in front of its entries.
  uint32_t stored_bytes() const {
    return static_cast<uint32_t>(fence.size()) + (states_shared() ? 1 : 0);
  }
  // Whether a unit states `shared`.
  bool states_shared() const { return prefix_of == PrefixOf::kLowFence && !infinite; }
  // The length of the longest key that a leaf may store whole, if units store `max_suffix_bytes` of
  // a key at most. What makes the prefix of its own longer than the range's is not counted on,
  // unless the low fence keeps it.
  size_t LongestKey(size_t max_suffix_bytes) const {
    switch (prefix_of) {
      case PrefixOf::kBoth: return prefix.size() + max_suffix_bytes;
      case PrefixOf::kLowFence: return prefix.size() + max_suffix_bytes - 1;  // of states_shared
      case PrefixOf::kHighFence: break;
    }
    return max_suffix_bytes;
  }
};

}  // namespace gossamer
