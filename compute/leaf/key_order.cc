#include "compute/leaf/key_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <numeric>
#include <ranges>

#include "compute/leaf/key_ranks.h"
#include "proto/key.h"

namespace gossamer {
namespace {

// Two counting sorts, by two digits, put the places in the order of this many bits: the highest in
// which any two differ. Few entries agree in them, and no branch of theirs is mispredicted, which
// is what sorting by comparison costs.
constexpr int kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;

// `other` gets as many places as `places`.
// Returns by how much to shift a prefix, so that those that were not ordered become equal.
int SortByHighBits(std::vector<KeyOrder::Place>& places, std::vector<KeyOrder::Place>& other) {
  uint64_t differing = 0;
  for (const KeyOrder::Place& one : places) differing |= one.prefix ^ places.front().prefix;
  const int shift = std::max(0, 64 - std::countl_zero(differing) - 2 * kDigitBits);
  const auto low = [shift](uint64_t prefix) { return (prefix >> shift) % kDigits; };
  const auto high = [shift](uint64_t prefix) { return (prefix >> shift >> kDigitBits) % kDigits; };
  std::array<uint32_t, kDigits> low_ends{};
  std::array<uint32_t, kDigits> high_ends{};
  for (const KeyOrder::Place& one : places) {
    ++low_ends[low(one.prefix)];
    ++high_ends[high(one.prefix)];
  }
  std::partial_sum(low_ends.begin(), low_ends.end(), low_ends.begin());
  std::partial_sum(high_ends.begin(), high_ends.end(), high_ends.begin());
  other.resize(places.size());
  // From the back: equal ones keep their order.
  for (const KeyOrder::Place& one : std::views::reverse(places)) {
    other[--low_ends[low(one.prefix)]] = one;
  }
  for (const KeyOrder::Place& one : std::views::reverse(other)) {
    places[--high_ends[high(one.prefix)]] = one;
  }
  return shift;
}

}  // namespace

size_t FindUnsorted(std::span<const KeyValueView> pairs) {
  uint64_t last = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const uint64_t prefix = KeyPrefix(pairs[i].key);
    if (prefix < last || (prefix == last && i != 0 && pairs[i].key < pairs[i - 1].key)) return i;
    last = prefix;
  }
  return pairs.size();
}

void KeyOrder::Reserve(size_t count) {
  if (count <= places.capacity()) return;
  count = std::bit_ceil(std::max(count, kMaxRanked));
  places.reserve(count);
  scratch.reserve(count);
}

void KeyOrder::Sort(std::span<const KeyValueView> pairs) {
  assert(!pairs.empty());
  Reserve(pairs.size());
  const size_t common = CommonBytesOfAll(pairs, [](const KeyValueView& pair) { return pair.key; });
  if (SortByRank(pairs, common)) return;
  places.clear();
  // Whether the words are the keys, but for what all have in common.
  const size_t size = pairs.front().key.size();
  bool are_words = size <= common + sizeof(uint64_t);
  for (size_t i = 0; i < pairs.size(); ++i) {
    places.push_back({KeyPrefix(pairs[i].key.substr(common)), static_cast<uint32_t>(i)});
    are_words = are_words && pairs[i].key.size() == size;
  }
  const int shift = SortByHighBits(places, scratch);
  const auto is_before = [pairs, are_words](const Place& a, const Place& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    if (are_words) return a.index < b.index;
    const KeyView left = pairs[a.index].key;
    const KeyView right = pairs[b.index].key;
    return AreEqual(left, right) ? a.index < b.index : PrefixedKey(left) < PrefixedKey(right);
  };
  for (auto first = places.begin(); first != places.end();) {
    auto end = first + 1;
    while (end != places.end() && (end->prefix ^ first->prefix) >> shift == 0) ++end;
    if (end - first > 1) std::sort(first, end, is_before);
    first = end;
  }
}

bool KeyOrder::SortByRank(std::span<const KeyValueView> pairs, size_t common) {
  const size_t count = pairs.size();
  if (count > kMaxRanked) return false;
  std::array<uint64_t, kMaxRanked> words;
  for (size_t i = 0; i < count; ++i) words[i] = KeyPrefix(pairs[i].key.substr(common));
  std::array<int32_t, kMaxRanked> ranks;
  if (!RankWords(std::span(words).first(count), ranks)) return false;
  places.resize(count);
  for (size_t i = 0; i < count; ++i) {
    places[static_cast<size_t>(ranks[i])] = {words[i], static_cast<uint32_t>(i)};
  }
  return true;
}

}  // namespace gossamer
