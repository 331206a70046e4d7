// Highway compiles this file once for each instruction set, as compute/cache/traversal.cc.
#include "compute/research/lab/index_traversal.h"

#include <cstddef>
#include <iterator>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/research/lab/index_traversal.cc"
#include <hwy/foreach_target.h>
// behind foreach_target.h
#include "compute/cache/traversal-inl.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::lab::HWY_NAMESPACE {
namespace {

// A function for each way, as the cache has one for its own: in one for all, each would be slower.
template <Prefetch kPrefetch, bool kPairs>
HWY_NOINLINE void FindBy(const SeparatorNode* root, std::span<const KeyView> keys,
                         std::span<Place> places) {
  gossamer::HWY_NAMESPACE::FindPlacesBy<kPrefetch, kPairs>(root, keys, places);
}

template <bool kPairs>
void Find(const SeparatorNode* root, std::span<const KeyView> keys, Prefetch prefetch,
          std::span<Place> places) {
  switch (prefetch) {
    case Prefetch::kHeader: return FindBy<Prefetch::kHeader, kPairs>(root, keys, places);
    case Prefetch::kHeaderAndMiddle:
      return FindBy<Prefetch::kHeaderAndMiddle, kPairs>(root, keys, places);
    case Prefetch::kWhole: return FindBy<Prefetch::kWhole, kPairs>(root, keys, places);
    case Prefetch::kChildren: return FindBy<Prefetch::kChildren, kPairs>(root, keys, places);
    case Prefetch::kPredicted: return FindBy<Prefetch::kPredicted, kPairs>(root, keys, places);
    case Prefetch::kPayload: return FindBy<Prefetch::kPayload, kPairs>(root, keys, places);
  }
}

void FindPlacesHere(const SeparatorNode* root, std::span<const KeyView> keys, Prefetch prefetch,
                    std::span<Place> places) {
  Find</*kPairs=*/false>(root, keys, prefetch, places);
}

void FindDigestsHere(const SeparatorNode* root, std::span<const KeyView> keys, Prefetch prefetch,
                     std::span<Place> places) {
  Find</*kPairs=*/true>(root, keys, prefetch, places);
}

}  // namespace
}  // namespace gossamer::lab::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gossamer::lab {

HWY_EXPORT(FindPlacesHere);
HWY_EXPORT(FindDigestsHere);

namespace {

template <Prefetch kPrefetch>
void FindPlacesBy(const SeparatorNode* root, std::span<const KeyView> keys,
                  std::span<Place> places) {
  HWY_DYNAMIC_DISPATCH(FindPlacesHere)(root, keys, kPrefetch, places);
}

}  // namespace

PlaceFinder FinderBy(Prefetch prefetch) {
  static constexpr PlaceFinder kFinders[] = {
      FindPlacesBy<Prefetch::kHeader>,    FindPlacesBy<Prefetch::kHeaderAndMiddle>,
      FindPlacesBy<Prefetch::kWhole>,     FindPlacesBy<Prefetch::kChildren>,
      FindPlacesBy<Prefetch::kPredicted>, FindPlacesBy<Prefetch::kPayload>};
  static_assert(std::size(kFinders) == std::size(kPrefetchNames));
  return kFinders[static_cast<size_t>(prefetch)];
}

void FindDigests(const SeparatorNode* root, std::span<const KeyView> keys, Prefetch prefetch,
                 std::span<Place> places) {
  HWY_DYNAMIC_DISPATCH(FindDigestsHere)(root, keys, prefetch, places);
}

}  // namespace gossamer::lab
#endif
