// Traversal of a SeparatorIndex by a group of keys at a time.
//
// One key alone waits for memory at each level: for the header of a node, its line of digests, and
// the payload. A group moves level by level: each key's next line is prefetched while the others
// are worked on, so that these waits overlap (Spiderman; Kocberber et al., AMAC, VLDB'15). All leaves
// of the index are at one depth, so that the keys of a group finish together, and the next group
// takes their place: no slot stands empty. A key that meets a gap goes on through an empty node in
// the first-level cache.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/cache/separator_node.h"
#include "gossamer/traversal.h"
#include "proto/key.h"

namespace gossamer {

// Where a key is: separator `index` of `image`, a node that the index leads to, or of its GapNode.
struct Place {
  const SeparatorNode* image = nullptr;
  uint32_t index = 0;
};

// Keys of one group at most.
inline constexpr size_t kMaxGroup = Traversal::kMaxBatch;

// Finds the places of `keys` (at most kMaxGroup) in the index below `root`, which is not null. Uses
// the widest vectors that this machine has.
void FindPlaces(const SeparatorNode* root, std::span<const KeyView> keys, Prefetch prefetch,
                std::span<Place> places);

// The same for an index of nodes of pairs: the index of a place is that of the last digest that is at
// most the key's. ConfirmPair compares the key itself. Keys have 8 bytes.
void FindDigests(const SeparatorNode* root, std::span<const KeyView> keys, Prefetch prefetch,
                 std::span<Place> places);

// Finds the places of any number of keys, `traversal.batch` at a time, by `find`: FindPlaces or
// FindDigests. Calls take(i, place) for each key, in order. The payload of a group is taken while that of
// the next one is on its way. Requires: `traversal.batch` is 1 to kMaxGroup.
template <typename Find, typename Take>
void TakePlaces(const Find& find, const SeparatorNode* root, std::span<const KeyView> keys,
                const Traversal& traversal, const Take& take) {
  assert(traversal.batch != 0 && traversal.batch <= kMaxGroup);
  // Groups of even size, so that the last one overlaps as much as the others.
  const size_t groups = (keys.size() + traversal.batch - 1) / traversal.batch;
  const auto start_of = [&](size_t group) { return group * keys.size() / groups; };
  Place places[2][kMaxGroup];
  for (size_t group = 0; group <= groups; ++group) {
    if (group != groups) {
      const size_t start = start_of(group);
      const size_t count = start_of(group + 1) - start;
      find(root, keys.subspan(start, count), traversal.prefetch,
           std::span(places[group % 2]).first(count));
    }
    if (group == 0) continue;
    const size_t start = start_of(group - 1);
    const size_t count = start_of(group) - start;
    for (size_t i = 0; i < count; ++i) take(start + i, places[(group - 1) % 2][i]);
  }
}

}  // namespace gossamer
