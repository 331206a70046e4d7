// Traversal of a SeparatorIndex by a group of keys at a time.
//
// One key alone waits for memory at each level: for the header of a node, its line of digests, and
// the payload. A group moves level by level: each key's next line is prefetched while the others
// are worked on, so that these waits overlap (Spiderman; Kocberber et al., AMAC, VLDB'15). All
// leaves of the index are at one depth, so that the keys of a group finish together, and the next
// group takes their place: no slot stands empty. A key that meets a gap goes on through an empty
// node in the first-level cache.
//
// Prefetched are the header of each node, its line of digests, and the payload of the last one
// (Prefetch::kPayload). docs/lab.md compares that with other ways.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/cache/separator_node.h"
#include "proto/key.h"

namespace gossamer {

// Where a key is: separator `index` of `image`, a node that the index leads to, or of its GapNode.
struct Place {
  const SeparatorNode* image = nullptr;
  uint32_t index = 0;
};

// What a traversal prefetches when it knows a key's next node (Spiderman's options).
enum class Prefetch : uint8_t {
  kHeader,           // the header; lines of digests and payload are waited for
  kHeaderAndMiddle,  // the header; then, in a round of its own, the line of digests
  kWhole,            // the header and all digests of a node of usual size
  kChildren,         // kHeaderAndMiddle; then, in a round of its own, the payload
  kPredicted,        // the header and the line where the key would be if separators were even
  kPayload,          // kHeaderAndMiddle; the payload for nodes of the tree only
};

// Most keys of one group.
inline constexpr size_t kMaxGroup = 64;

// Finds the places of `keys`, 1 to kMaxGroup, in the index below `root`, which is not null. Uses
// the widest vectors that this machine has.
void FindPlaces(const SeparatorNode* root, std::span<const KeyView> keys, std::span<Place> places);
// That of one key.
Place FindPlace(const SeparatorNode* root, KeyView key);

// FindPlaces, or another way to the same places.
using PlaceFinder = void (*)(const SeparatorNode* root, std::span<const KeyView> keys,
                             std::span<Place> places);

// Finds the places of any number of keys, `batch` at a time, by find(root, keys, places). Calls
// take(i, place) for each key, in order. The payload of a group is taken while that of the next one
// is on its way. Requires: `batch` is 1 to kMaxGroup.
template <typename Find, typename Take>
void TakePlaces(const Find& find, const SeparatorNode* root, std::span<const KeyView> keys,
                size_t batch, const Take& take) {
  assert(batch != 0 && batch <= kMaxGroup);
  // Groups of even size, so that the last one overlaps as much as the others.
  const size_t groups = (keys.size() + batch - 1) / batch;
  const auto start_of = [&](size_t group) { return group * keys.size() / groups; };
  Place places[2][kMaxGroup];
  for (size_t group = 0; group <= groups; ++group) {
    if (group != groups) {
      const size_t start = start_of(group);
      const size_t count = start_of(group + 1) - start;
      find(root, keys.subspan(start, count), std::span(places[group % 2]).first(count));
    }
    if (group == 0) continue;
    const size_t start = start_of(group - 1);
    const size_t count = start_of(group) - start;
    for (size_t i = 0; i < count; ++i) take(start + i, places[(group - 1) % 2][i]);
  }
}

}  // namespace gossamer
