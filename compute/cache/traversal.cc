// Highway compiles this file once for each instruction set (it includes the file again and again),
// and picks the best that the machine has when it runs.
#include "compute/cache/traversal.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/cache/traversal.cc"
#include <hwy/foreach_target.h>
// behind foreach_target.h
#include "compute/cache/traversal-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::HWY_NAMESPACE {
namespace {

void FindPlacesHere(const SeparatorNode* root, std::span<const KeyView> keys,
                    std::span<Place> places) {
  FindPlacesBy<Prefetch::kPayload, /*kPairs=*/false>(root, keys, places);
}

// With no other key to work on meanwhile, prefetches of what is read next only cost instructions.
Place FindPlaceHere(const SeparatorNode* root, KeyView key) {
  Place place;
  FindPlacesBy<Prefetch::kHeader, /*kPairs=*/false>(root, {&key, 1}, {&place, 1});
  return place;
}

}  // namespace
}  // namespace gossamer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer {

HWY_EXPORT(FindPlacesHere);
HWY_EXPORT(FindPlaceHere);

void FindPlaces(const SeparatorNode* root, std::span<const KeyView> keys, std::span<Place> places) {
  HWY_DYNAMIC_DISPATCH(FindPlacesHere)(root, keys, places);
}

Place FindPlace(const SeparatorNode* root, KeyView key) {
  return HWY_DYNAMIC_DISPATCH(FindPlaceHere)(root, key);
}

}  // namespace gossamer
#endif
