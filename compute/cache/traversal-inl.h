// The traversal of a SeparatorIndex for each way to prefetch: FindPlacesBy. The cache uses one for
// groups of keys (traversal.h); gossamer-lab compares all.
//
// Highway compiles the sources that include this file once for each instruction set, and this file
// with them.
#if defined(GOSSAMER_COMPUTE_CACHE_TRAVERSAL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef GOSSAMER_COMPUTE_CACHE_TRAVERSAL_INL_H
#undef GOSSAMER_COMPUTE_CACHE_TRAVERSAL_INL_H
#else
#define GOSSAMER_COMPUTE_CACHE_TRAVERSAL_INL_H
#endif

#include <hwy/highway.h>

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compute/cache/separator_index.h"
#include "compute/cache/separator_node.h"
#include "compute/cache/traversal.h"

HWY_BEFORE_NAMESPACE();
namespace gossamer::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kLine = SeparatorNode::kDigestsPerLine;
// Lines of digests of a node of usual size.
constexpr size_t kUsualLines = 4;

// How many of `kCount` digests are at most x.
template <size_t kCount>
HWY_INLINE uint32_t CountAtMost(const int32_t* digests, int32_t x) {
  const hn::CappedTag<int32_t, kCount> tag;
  const auto wanted = hn::Set(tag, x);
  size_t above = 0;
  for (size_t i = 0; i < kCount; i += hn::Lanes(tag)) {
    above += hn::CountTrue(tag, hn::Gt(hn::LoadU(tag, digests + i), wanted));
  }
  return static_cast<uint32_t>(kCount - above);
}

// A key on its way down.
struct Slot {
  const SeparatorNode* node;
  uint64_t word;  // KeyPrefix of the key
  int32_t digest;
  uint32_t line;
};

HWY_INLINE void PrefetchLine(const void* line) { __builtin_prefetch(line, 0, 3); }

HWY_INLINE void ChooseLine(Slot& slot, KeyView key) {
  const SeparatorNode& node = *slot.node;
  slot.digest = node.DigestOf(key, slot.word);
  if (!node.is_wide()) {
    slot.line = CountAtMost<SeparatorNode::kDividers>(node.dividers(), slot.digest);
    return;
  }
  uint32_t line = 0;
  for (uint32_t i = 0; i < node.sample_lines(); ++i) {
    line += CountAtMost<kLine>(node.SampleLine(i), slot.digest);
  }
  slot.line = line - 1;
}

// A round: the line of digests of each slot is on its way.
HWY_INLINE void PrefetchDigests(Slot* slots, std::span<const KeyView> keys) {
  for (size_t i = 0; i < keys.size(); ++i) {
    ChooseLine(slots[i], keys[i]);
    PrefetchLine(slots[i].node->DigestLine(slots[i].line));
  }
}

// The last digest that is at most that of the key.
HWY_INLINE uint32_t SearchDigests(const Slot& slot) {
  const uint32_t in_line = CountAtMost<kLine>(slot.node->DigestLine(slot.line), slot.digest) - 1;
  return slot.line * kLine + in_line;
}

// The last separator that is at most `key`.
HWY_INLINE uint32_t SearchLine(const Slot& slot, KeyView key) {
  return slot.node->Confirm(SearchDigests(slot), slot.digest, key);
}

// The line of the child's digests where the key would be if separators were evenly spread over the
// child's range.
HWY_INLINE void PrefetchPredicted(const Slot& parent, uint32_t index, const SeparatorNode* child) {
  const int32_t low = parent.node->digest(index);
  const bool is_last = index + 1 == parent.node->count();
  const int64_t range = is_last ? 0 : int64_t{parent.node->digest(index + 1)} - low;
  const int64_t part =
      range == 0 ? 0 : (int64_t{parent.digest} - low) * int64_t{kUsualLines} / range;
  PrefetchLine(child->DigestLine0() + kLine * part);
}

template <Prefetch kPrefetch>
HWY_INLINE void GoToChild(Slot& slot, uint32_t index) {
  const uint64_t word = slot.node->payload(index).load(std::memory_order_acquire);
  const SeparatorNode* const child = SeparatorNode::At(word);
  PrefetchLine(child);
  if constexpr (kPrefetch == Prefetch::kWhole) {
    for (size_t line = 0; line < kUsualLines; ++line) {
      PrefetchLine(child->DigestLine0() + line * kLine);
    }
  }
  if constexpr (kPrefetch == Prefetch::kPredicted) PrefetchPredicted(slot, index, child);
  slot.node = child;
}

// Finds the places of `keys`, as FindPlaces. kPairs: the index leads to nodes of pairs, whose keys
// have 8 bytes. The index of a place is then that of the last digest that is at most the key's:
// ConfirmPair compares the key itself.
template <Prefetch kPrefetch, bool kPairs>
HWY_INLINE void FindPlacesBy(const SeparatorNode* root, std::span<const KeyView> keys,
                             std::span<Place> places) {
  constexpr bool kHasLineRound = kPrefetch == Prefetch::kHeaderAndMiddle ||
                                 kPrefetch == Prefetch::kChildren ||
                                 kPrefetch == Prefetch::kPayload;
  constexpr bool kHasPayloadRound =
      kPrefetch == Prefetch::kPayload || kPrefetch == Prefetch::kChildren;
  const size_t count = keys.size();
  assert(count != 0 && count <= kMaxGroup && count <= places.size());
  Slot slots[kMaxGroup];
  uint32_t indexes[kMaxGroup];
  // The root is in the nearest caches.
  for (size_t i = 0; i < count; ++i) {
    slots[i].node = root;
    slots[i].word = KeyPrefix(keys[i]);
    ChooseLine(slots[i], keys[i]);
    GoToChild<kPrefetch>(slots[i], SearchLine(slots[i], keys[i]));
  }
  for (uint32_t height = root->height() - 1; height != 0; --height) {
    if constexpr (kHasLineRound) PrefetchDigests(slots, keys);
    for (size_t i = 0; i < count; ++i) {
      if constexpr (!kHasLineRound) ChooseLine(slots[i], keys[i]);
      indexes[i] = SearchLine(slots[i], keys[i]);
      if constexpr (kPrefetch == Prefetch::kChildren) {
        PrefetchLine(&slots[i].node->payload(indexes[i]));
      } else {
        GoToChild<kPrefetch>(slots[i], indexes[i]);
      }
    }
    if constexpr (kPrefetch == Prefetch::kChildren) {
      for (size_t i = 0; i < count; ++i) GoToChild<kPrefetch>(slots[i], indexes[i]);
    }
  }
  if constexpr (kHasLineRound) PrefetchDigests(slots, keys);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (!kHasLineRound) ChooseLine(slots[i], keys[i]);
    const uint32_t index = kPairs ? SearchDigests(slots[i]) : SearchLine(slots[i], keys[i]);
    if constexpr (kHasPayloadRound) PrefetchLine(&slots[i].node->payload(index));
    places[i] = {slots[i].node, index};
  }
}

}  // namespace gossamer::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
