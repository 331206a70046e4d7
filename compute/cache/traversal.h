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
#include <string_view>

#include "compute/cache/separator_node.h"
#include "proto/key.h"

namespace gossamer {

// What a traversal prefetches when it knows a key's next node.
enum class Prefetch : uint8_t {
  kHeader,           // the header; lines of digests and payload are waited for
  kHeaderAndMiddle,  // the header; then, in a round of its own, the line of digests
  kWhole,            // the header and all digests of a node of usual size
  kChildren,         // kHeaderAndMiddle; then, in a round of its own, the payload
  kPredicted,        // the header and the line where the key would be if separators were even
  kPayload,          // kHeaderAndMiddle; the payload for the images only
};
inline constexpr std::string_view kPrefetchNames[] = {"header",   "header_and_middle", "whole",
                                                      "children", "predicted",         "payload"};

// Where a key is: separator `index` of `image`, a node that the index leads to, or of its GapNode.
struct Place {
  const SeparatorNode* image = nullptr;
  uint32_t index = 0;
};

// Keys of one group at most.
inline constexpr size_t kMaxGroup = 64;

// Finds the places of `keys` (at most kMaxGroup) in the index below `root`, which is not null. Uses
// the widest vectors that this machine has.
void FindPlaces(const SeparatorNode* root, std::span<const KeyView> keys, Prefetch prefetch,
                std::span<Place> places);

}  // namespace gossamer
