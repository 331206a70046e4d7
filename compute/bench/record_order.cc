#include "compute/bench/record_order.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>
#include <utility>

#include "common/random.h"

namespace gossamer::bench {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"random",    "runs",       "sorted",
                                                    "ascending", "descending", "file"};

// How go-ycsb's keys are ordered: decimals of different lengths as if zeros followed them, and
// without these the shorter, lesser one is first.
std::pair<uint64_t, uint64_t> PlaceOfYcsb(uint64_t id) {
  constexpr uint64_t kLeastOfMostDigits = 1'000'000'000'000'000'000;
  const uint64_t number = YcsbNumber(id);
  uint64_t aligned = number;
  while (aligned != 0 && aligned < kLeastOfMostDigits) aligned *= 10;
  return {aligned, number};
}

void SortByKey(std::vector<uint64_t>& ids, const KeyCodec& codec) {
  switch (codec.form()) {
    case KeyForm::kNumbers:  // ordered as the mixed ids that they spell
      std::ranges::sort(ids, {}, [&codec](uint64_t id) { return MixBits(id, codec.bits()); });
      break;
    case KeyForm::kYcsb: std::ranges::sort(ids, {}, PlaceOfYcsb); break;
    case KeyForm::kLines:
      std::ranges::sort(ids, {}, [&codec](uint64_t id) { return codec.list().line(id); });
      break;
  }
}

}  // namespace

std::string LoadOrderNames() { return fmt::format("{}", fmt::join(kNames, ", ")); }

std::optional<LoadOrder> ParseLoadOrder(std::string_view name) {
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<LoadOrder>(found - kNames.begin());
}

std::vector<uint64_t> OrderOfIds(LoadOrder order, const KeyCodec& codec, uint64_t records,
                                 uint32_t run, uint64_t seed) {
  assert(order != LoadOrder::kFile || codec.form() == KeyForm::kLines);
  if (order == LoadOrder::kRandom) return {};
  std::vector<uint64_t> ids(records);
  std::iota(ids.begin(), ids.end(), uint64_t{0});
  if (order == LoadOrder::kFile) {
    std::ranges::sort(ids, {}, [&codec](uint64_t id) { return codec.list().line(id).data(); });
    return ids;
  }
  SortByKey(ids, codec);
  if (order == LoadOrder::kDescending) std::ranges::reverse(ids);
  if (order != LoadOrder::kRuns) return ids;

  std::vector<uint64_t> runs((records + run - 1) / run);
  std::iota(runs.begin(), runs.end(), uint64_t{0});
  Random random(seed);
  Shuffle(std::span(runs), random);
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
