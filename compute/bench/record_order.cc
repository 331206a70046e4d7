#include "compute/bench/record_order.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "common/random.h"

namespace gossamer::bench {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"random", "runs", "sorted"};

}  // namespace

std::string_view LoadOrderName(LoadOrder order) { return kNames[static_cast<size_t>(order)]; }

std::optional<LoadOrder> ParseLoadOrder(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<LoadOrder>(found - kNames.begin());
}

std::vector<uint64_t> OrderOfIds(LoadOrder order, const KeyCodec& codec, uint64_t records,
                                 uint32_t run, uint64_t seed) {
  if (order == LoadOrder::kRandom) return {};
  // Keys are ordered as the mixed ids that they spell.
  std::vector<uint64_t> ids(records);
  for (uint64_t id = 0; id < records; ++id) ids[id] = MixBits(id, codec.bits());
  std::ranges::sort(ids);
  for (uint64_t& id : ids) id = UnmixBits(id, codec.bits());
  if (order == LoadOrder::kSorted) return ids;

  std::vector<uint64_t> runs((records + run - 1) / run);
  std::iota(runs.begin(), runs.end(), uint64_t{0});
  Random random(seed);
  for (size_t left = runs.size(); left > 1; --left) {
    std::swap(runs[left - 1], runs[random.Below(left)]);
  }
  std::vector<uint64_t> ordered;
  ordered.reserve(records);
  for (const uint64_t number : runs) {
    const auto first = ids.begin() + static_cast<ptrdiff_t>(number * run);
    const auto rest = static_cast<uint64_t>(ids.end() - first);
    ordered.insert(ordered.end(), first,
                   first + static_cast<ptrdiff_t>(std::min<uint64_t>(run, rest)));
  }
  return ordered;
}

}  // namespace gossamer::bench
