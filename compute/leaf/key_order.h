// KeyOrder: the order of the keys of a batch.
//
// Keys that are equal keep the caller's order.
//
// Thread-safety: none. Cost: no allocation once its vectors have grown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gossamer/store.h"

namespace gossamer {

// The index of the first key that is less than the one before it; pairs.size() if none is.
size_t FindUnsorted(std::span<const KeyValueView> pairs);

struct KeyOrder {
  struct Place {
    uint64_t prefix;  // the 8 bytes of the key behind what all have in common
    uint32_t index;   // in the caller's order
  };

  // Makes `places` those of the pairs, in the order of their keys. Requires: there are pairs.
  void Sort(std::span<const KeyValueView> pairs);

  std::vector<Place> places;
  std::vector<Place> scratch;

 private:
  // Of both, so that later batches as large allocate nothing, whatever their keys are.
  void Reserve(size_t count);
  // Sorts by the 8 bytes of the keys behind `common`. Returns false if RankWords cannot rank them.
  bool SortByRank(std::span<const KeyValueView> pairs, size_t common);
};

}  // namespace gossamer
