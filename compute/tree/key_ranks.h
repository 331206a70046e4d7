// Ranks of few numbers, words or keys: how many of them are less than each. To sort by ranks takes no branch that depends
// on the data, and so no mispredicted one.
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

// Numbers are counted for so many at a time, the machine's widest vectors at most.
inline constexpr size_t kRankLanes = 16;

// Sets ranks[i] to how many of numbers[0] to numbers[count - 1] are less than numbers[i]. Compares
// each with each, many at a time and without a branch.
// Requires: storage for `count` rounded up to a multiple of kRankLanes in both. What `numbers` holds
// behind `count` does not matter.
void CountLess(const int32_t* numbers, size_t count, int32_t* ranks);

inline constexpr size_t kMaxRanked = 128;
static_assert(kMaxRanked % kRankLanes == 0);

// Sets ranks[i] to how many of `words` are less than words[i]. Returns false if there are more than kMaxRanked, or if the
// first 31 bits in which they differ do not tell them all apart: the ranks are not valid then, but less than words.size().
bool RankWords(std::span<const uint64_t> words, std::array<int32_t, kMaxRanked>& ranks);

// Sets ranks[i] to how many of the keys of `entries`, all distinct, are less than that of entries[i]. `words` is scratch.
void RankByKey(std::span<const Entry> entries, std::vector<uint64_t>& words,
               std::vector<uint32_t>& ranks);

}  // namespace gossamer
