// A Bloom filter of keys: whether a key may have been added, or was not for sure.
//
// All bits of a key are in one line of the processor's cache, so that a question is one miss
// (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", WEA 2007). With
// as many keys as expected, about 2 % of the keys that were not added look as if they were.
//
// Thread-safety: any number of threads may add and ask. A key that was added before the question
// began is never denied.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/random.h"
#include "compute/research/lab/tree.h"

namespace gossamer::lab {

class BloomFilter {
 public:
  // Room for `expected_keys`. More may be added; the filter then denies fewer.
  explicit BloomFilter(uint64_t expected_keys)
      : lines_(std::max<uint64_t>(1, expected_keys * kBitsForEach / kBitsOfLine)) {}

  void Add(Key key) {
    ForBits(key, [](std::atomic<uint64_t>& word, uint64_t bit) {
      // Most bits of an older filter are there already: no line is taken from other processors
      // then.
      if ((word.load(std::memory_order_relaxed) & bit) == 0) {
        word.fetch_or(bit, std::memory_order_relaxed);
      }
      return true;
    });
  }

  bool MayHave(Key key) const {
    return ForBits(key, [](const std::atomic<uint64_t>& word, uint64_t bit) {
      return (word.load(std::memory_order_relaxed) & bit) != 0;
    });
  }

 private:
  static constexpr uint64_t kBitsForEach = 10;
  static constexpr uint64_t kBitsOfLine = 512;
  static constexpr uint32_t kHashes = 6;

  struct alignas(64) Line {
    std::array<std::atomic<uint64_t>, 8> words = {};
  };

  // Calls `visit(word, bit)` for the bits of a key, until one returns false. Returns: whether none
  // did.
  template <typename Visit>
  bool ForBits(Key key, const Visit& visit) const {
    __extension__ using Wide = unsigned __int128;
    const uint64_t hash = SplitMix64::Mix(key);
    Line& line = lines_[static_cast<size_t>((Wide{hash} * lines_.size()) >> 64)];
    uint64_t bits = SplitMix64::Mix(hash);  // nine of them choose a bit
    for (uint32_t i = 0; i < kHashes; ++i, bits >>= 9) {
      if (!visit(line.words[bits % 8], uint64_t{1} << (bits / 8 % 64))) return false;
    }
    return true;
  }

  mutable std::vector<Line> lines_;
};

}  // namespace gossamer::lab
