#include "compute/bench/workload.h"

#include <algorithm>
#include <utility>

namespace gossamer::bench {
namespace {

constexpr std::array<std::pair<std::string_view, Distribution>, 3> kDistributions = {
    {{"uniform", Distribution::kUniform},
     {"zipfian", Distribution::kZipfian},
     {"latest", Distribution::kLatest}}};

// Percentages in the order of BenchOperation: read, update, insert, scan, read-modify-write.
constexpr std::array<Workload, 7> kWorkloads = {{
    {'a', {50, 50, 0, 0, 0}},
    {'b', {95, 5, 0, 0, 0}},
    {'c', {100, 0, 0, 0, 0}},
    {'d', {95, 0, 5, 0, 0}, Distribution::kLatest},
    {'e', {0, 0, 5, 95, 0}},
    {'f', {50, 0, 0, 0, 50}},
    {'u', {0, 100, 0, 0, 0}},
}};

constexpr bool MixesAreWhole() {
  for (const Workload& workload : kWorkloads) {
    uint32_t sum = 0;
    for (const uint32_t percent : workload.percent) sum += percent;
    if (sum != 100) return false;
  }
  return true;
}
static_assert(MixesAreWhole());

}  // namespace

std::optional<Distribution> ParseDistribution(std::string_view name) {
  for (const auto& [known, distribution] : kDistributions) {
    if (known == name) return distribution;
  }
  return std::nullopt;
}

std::string_view DistributionName(Distribution distribution) {
  return kDistributions[static_cast<size_t>(distribution)].first;
}

std::optional<Workload> FindWorkload(std::string_view name) {
  for (const Workload& workload : kWorkloads) {
    if (name.size() == 1 && name[0] == workload.name) return workload;
  }
  return std::nullopt;
}

RecordIds::RecordIds(uint64_t loaded, uint64_t max_inserts, Share share)
    : loaded_(loaded),
      max_inserts_(max_inserts),
      share_(share),
      next_(loaded),
      acknowledged_(loaded),
      done_(std::make_unique<std::atomic<uint64_t>[]>(max_inserts / 64 + 1)) {}

bool RecordIds::IsDone(uint64_t place) const {
  const uint64_t insert = place - loaded_;
  return insert < max_inserts_ && ((done_[insert / 64].load() >> (insert % 64)) & 1) != 0;
}

// Sequentially consistent throughout. When two threads acknowledge neighbours, the later must
// see the earlier's bit, or the earlier the later's. Otherwise `acknowledged_` would stop between
// them.
void RecordIds::Acknowledge(uint64_t id) {
  const uint64_t insert = (id - loaded_) / share_.processes;
  done_[insert / 64].fetch_or(uint64_t{1} << (insert % 64));
  uint64_t limit = acknowledged_.load();
  while (IsDone(limit)) {
    if (acknowledged_.compare_exchange_weak(limit, limit + 1)) ++limit;
  }
}

OperationStream::OperationStream(const Workload& workload, double theta, uint64_t seed,
                                 uint32_t thread, RecordIds& ids)
    : workload_(workload),
      ids_(ids),
      expected_places_(ids.loaded() +
                       ids.max_inserts() * 2 *
                           workload.percent[static_cast<size_t>(BenchOperation::kInsert)] / 100),
      random_(seed, thread),
      zipfian_(theta, workload.ranks),
      latest_(theta) {}

// The popular records stay the same while others are inserted. As in YCSB, places are drawn from
// all that the run may create, and one that has no record yet is drawn again.
uint64_t OperationStream::ZipfianPlace(uint64_t records) {
  constexpr int kDraws = 64;
  for (int draw = 0; draw < kDraws; ++draw) {
    const uint64_t place = zipfian_.Draw(random_, expected_places_);
    if (place < records) return place;
  }
  return zipfian_.Draw(random_, records);  // many inserts into a nearly empty store
}

uint64_t OperationStream::ExistingPlace() {
  const uint64_t records = ids_.acknowledged();
  switch (workload_.distribution) {
    case Distribution::kUniform: return random_.Below(records);
    case Distribution::kZipfian: return ZipfianPlace(records);
    case Distribution::kLatest: return latest_.Draw(random_, records);
  }
  return 0;
}

DrawnOperation OperationStream::Next() {
  DrawnOperation operation{};
  uint64_t ticket = random_.Below(100);
  size_t kind = 0;
  while (ticket >= workload_.percent[kind]) ticket -= workload_.percent[kind++];
  operation.kind = static_cast<BenchOperation>(kind);
  if (operation.kind == BenchOperation::kInsert) {
    operation.id = ids_.TakeNext();
  } else {
    operation.id = ids_.IdAt(ExistingPlace());
  }
  if (operation.kind == BenchOperation::kScan) {
    operation.scan_length = static_cast<uint32_t>(1 + random_.Below(workload_.max_scan_length));
  }
  return operation;
}

}  // namespace gossamer::bench
