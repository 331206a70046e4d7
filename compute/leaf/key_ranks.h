// Ranks of keys or words: how many are less than each. Sorting by ranks has no branch that depends
// on the data, so none is mispredicted. (Highway's VQSort of K64V64 takes 5 to 17 times as long for
// 16 to 64 words with AVX2, and std::sort 4 to 7 times.)
//
// Thread-safety: thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/group.h"

namespace gossamer {

// Most words that RankWords ranks: it compares each with each.
inline constexpr size_t kMaxRanked = 128;

// Sets ranks[i] to the number of `words` less than words[i]. Returns false, with `ranks`
// unspecified, if there are more than kMaxRanked words, or if two words agree in the digest: the
// highest 31 bits of the difference to the least word.
bool RankWords(std::span<const uint64_t> words, std::array<int32_t, kMaxRanked>& ranks);

// Kept for the next call of RankByKey, which then does not allocate.
struct RankScratch {
  std::vector<uint64_t> words;
  std::vector<uint32_t> order;
};

// Sets ranks[i] to the number of entries with a key less than that of entries[i]. Requires:
// distinct keys.
void RankByKey(std::span<const Entry> entries, RankScratch& scratch, std::vector<uint32_t>& ranks);

}  // namespace gossamer
