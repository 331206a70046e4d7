#include "compute/bench/record_order.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>

#include "common/random.h"

namespace gossamer::bench {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"random",    "runs",       "sorted",
                                                    "ascending", "descending", "file"};

// Numbers are ordered as the mixed ids that they spell.
std::vector<uint64_t> NumbersInOrder(uint64_t records, uint32_t bits) {
  std::vector<uint64_t> ids(records);
  for (uint64_t id = 0; id < records; ++id) ids[id] = MixBits(id, bits);
  std::ranges::sort(ids);
  for (uint64_t& id : ids) id = UnmixBits(id, bits);
  return ids;
}

// Decimals of different lengths are ordered as if zeros followed them, and without these the
// shorter, lesser one is first.
std::vector<uint64_t> YcsbInOrder(uint64_t records) {
  struct Record {
    uint64_t aligned;  // with as many digits as the longest
    uint64_t id;
  };
  constexpr uint64_t kLeastOfMostDigits = 1'000'000'000'000'000'000;
  std::vector<Record> order(records);
  for (uint64_t id = 0; id < records; ++id) {
    uint64_t aligned = YcsbNumber(id);
    while (aligned != 0 && aligned < kLeastOfMostDigits) aligned *= 10;
    order[id] = {aligned, id};
  }
  std::ranges::sort(order, [](const Record& a, const Record& b) {
    if (a.aligned != b.aligned) return a.aligned < b.aligned;
    return YcsbNumber(a.id) < YcsbNumber(b.id);
  });
  std::vector<uint64_t> ids(records);
  std::ranges::transform(order, ids.begin(), &Record::id);
  return ids;
}

std::vector<uint64_t> IdsInOrder(const KeyCodec& codec, uint64_t records) {
  switch (codec.form()) {
    case KeyForm::kNumbers: return NumbersInOrder(records, codec.bits());
    case KeyForm::kYcsb: return YcsbInOrder(records);
    case KeyForm::kLines: break;
  }
  std::vector<uint64_t> ids(records);
  std::iota(ids.begin(), ids.end(), uint64_t{0});
  std::ranges::sort(ids, {}, [&codec](uint64_t id) { return codec.list().line(id); });
  return ids;
}

std::vector<uint64_t> IdsAsInFile(const KeyList& list, uint64_t records) {
  std::vector<uint64_t> ids(records);
  std::iota(ids.begin(), ids.end(), uint64_t{0});
  std::ranges::sort(ids, {}, [&list](uint64_t id) { return list.line(id).data(); });
  return ids;
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
  if (order == LoadOrder::kFile) return IdsAsInFile(codec.list(), records);
  std::vector<uint64_t> ids = IdsInOrder(codec, records);
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
