// Traversals of a SeparatorIndex by each way to prefetch, and of an index of nodes of pairs. The
// store's cache has one of them: compute/cache/traversal.h.
#pragma once

#include <span>
#include <string_view>

#include "compute/cache/traversal.h"

namespace gossamer::lab {

// In the order of the enumerators.
inline constexpr std::string_view kPrefetchNames[] = {"header",   "header_and_middle", "whole",
                                                      "children", "predicted",         "payload"};

// FindPlaces by a way to prefetch.
PlaceFinder FinderBy(Prefetch prefetch);

// The places of `keys`, of 8 bytes each, in an index of nodes of pairs: the index of a place is
// that of the last digest that is at most the key's. ConfirmPair compares the key itself.
void FindDigests(const SeparatorNode* root, std::span<const KeyView> keys, Prefetch prefetch,
                 std::span<Place> places);

}  // namespace gossamer::lab
