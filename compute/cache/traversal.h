// Traversal of a SeparatorIndex by a group of keys at a time.
//
// One key alone waits for memory at each level: for the header of a node, its line of digests, and
// the payload. A group moves level by level: each key's next line is prefetched while the others
// are worked on, so that these waits overlap (Spiderman; Kocberber et al., AMAC, VLDB'15). All leaves
// of the index are at one depth, so that the keys of a group finish together, and the next group
// takes their place: no slot stands empty. A key that meets a gap goes on through an empty node in
// the first-level cache.
#pragma once

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

}  // namespace gossamer
