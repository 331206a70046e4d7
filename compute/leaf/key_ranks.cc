// Highway compiles this file once for each instruction set (it includes the file again and again),
// and picks the best that the machine has when it runs.
#include "compute/leaf/key_ranks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/leaf/key_ranks.cc"
#include <hwy/foreach_target.h>
// behind foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace gossamer::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Numbers are counted for so many at a time, the machine's widest vectors at most.
constexpr size_t kRankLanes = 16;
static_assert(kMaxRanked % kRankLanes == 0);

// Sets ranks[i] to how many of numbers[0] to numbers[count - 1] are less than numbers[i]. Compares
// each with each, many at a time and without a branch.
// Requires: storage for `count` rounded up to a multiple of kRankLanes in both. What `numbers`
// holds behind `count` does not matter.
void CountLessHere(const int32_t* numbers, size_t count, int32_t* ranks) {
  assert(count <= kMaxRanked);
  const hn::CappedTag<int32_t, kRankLanes> tag;
  for (size_t first = 0; first < count; first += hn::Lanes(tag)) {
    const auto own = hn::LoadU(tag, numbers + first);
    auto less = hn::Zero(tag);
    for (size_t i = 0; i < count; ++i) {
      // A lane of a true mask is -1.
      less = hn::Sub(less, hn::VecFromMask(tag, hn::Lt(hn::Set(tag, numbers[i]), own)));
    }
    hn::StoreU(less, tag, ranks + first);
  }
}

}  // namespace
}  // namespace gossamer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>
#include <bit>
#include <cassert>

#include "proto/key.h"

namespace gossamer {

HWY_EXPORT(CountLessHere);

bool RankWords(std::span<const uint64_t> words, std::array<int32_t, kMaxRanked>& ranks) {
  constexpr int kDigestBits = 31;  // digests are compared as int32_t
  const size_t count = words.size();
  if (count == 0) return true;
  if (count > kMaxRanked) return false;
  uint64_t least = words[0];
  uint64_t greatest = words[0];
  for (const uint64_t word : words) {
    least = std::min(least, word);
    greatest = std::max(greatest, word);
  }
  const int shift = std::max(static_cast<int>(std::bit_width(greatest - least)) - kDigestBits, 0);
  std::array<int32_t, kMaxRanked> digests;
  for (size_t i = 0; i < count; ++i) {
    digests[i] = static_cast<int32_t>((words[i] - least) >> shift);
  }
  HWY_DYNAMIC_DISPATCH(CountLessHere)(digests.data(), count, ranks.data());
  size_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += static_cast<size_t>(ranks[i]);
  // Each pair of different digests adds 1 to the sum; a pair of equal ones adds 0.
  return sum == count * (count - 1) / 2;
}

void RankByKey(std::span<const Entry> entries, RankScratch& scratch, std::vector<uint32_t>& ranks) {
  const size_t count = entries.size();
  std::vector<uint64_t>& words = scratch.words;
  words.resize(count);
  ranks.resize(count);
  if (count == 0) return;
  const size_t common = CommonBytesOfAll(entries, [](const Entry& entry) { return entry.key; });
  for (size_t i = 0; i < count; ++i) words[i] = KeyPrefixBehind(entries[i].key, common);
  std::array<int32_t, kMaxRanked> few;
  if (RankWords(words, few)) {
    std::copy_n(few.begin(), count, ranks.begin());
    return;
  }
  std::vector<uint32_t>& order = scratch.order;
  order.resize(count);
  for (size_t i = 0; i < count; ++i) order[i] = static_cast<uint32_t>(i);
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    if (words[a] != words[b]) return words[a] < words[b];
    return PrefixedKey(entries[a].key) < PrefixedKey(entries[b].key);
  });
  assert(std::ranges::adjacent_find(order, {}, [&](uint32_t i) { return entries[i].key; }) ==
         order.end());
  for (size_t i = 0; i < count; ++i) ranks[order[i]] = static_cast<uint32_t>(i);
}

}  // namespace gossamer
#endif
