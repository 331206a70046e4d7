// Ranks of few numbers: how many of them are less than each.
//
// Thread-safety: thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gossamer {

// Numbers are counted for so many at a time, the machine's widest vectors at most.
inline constexpr size_t kRankLanes = 16;

// Sets ranks[i] to how many of numbers[0] to numbers[count - 1] are less than numbers[i]. Compares
// each with each, many at a time and without a branch.
// Requires: storage for `count` rounded up to a multiple of kRankLanes in both. What `numbers` holds
// behind `count` does not matter.
void CountLess(const int32_t* numbers, size_t count, int32_t* ranks);

}  // namespace gossamer
