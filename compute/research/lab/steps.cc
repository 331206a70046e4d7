#include "compute/research/lab/steps.h"

namespace gossamer::lab {
namespace {

// Percentages in the order of BenchOperation: read, update, insert, scan, read-modify-write.
constexpr std::array<Mix, 4> kMixes = {{{"insert_only", {0, 0, 100, 0, 0}},
                                        {"read_insert", {50, 0, 50, 0, 0}},
                                        {"read_only", {100, 0, 0, 0, 0}},
                                        {"scan_insert", {0, 0, 5, 95, 0}}}};

std::vector<Step> Draw(bench::OperationStream& stream, uint64_t count) {
  std::vector<Step> steps;
  steps.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const bench::DrawnOperation drawn = stream.Next();
    steps.push_back({KeyOfRecord(drawn.id), drawn.scan_length, drawn.kind});
  }
  return steps;
}

}  // namespace

uint64_t Mix::Loaded(uint64_t records) const {
  return Has(BenchOperation::kRead) || Has(BenchOperation::kScan) ? records : 0;
}

std::span<const Mix> Mixes() { return kMixes; }

bool SharesTree(const RunOptions& a, const RunOptions& b) {
  return !a.mix.Has(BenchOperation::kInsert) && a.mix.name == b.mix.name &&
         a.distribution == b.distribution && a.theta == b.theta && a.threads == b.threads &&
         a.partitions == b.partitions && a.records == b.records && a.operations == b.operations &&
         a.seed == b.seed;
}

std::vector<ThreadSteps> DrawSteps(const RunOptions& options) {
  bench::Workload workload;
  workload.percent = options.mix.percent;
  workload.distribution = options.distribution;
  workload.max_scan_length = kMaxScanLength;
  // No insert is acknowledged: reads keep to the loaded records.
  bench::RecordIds ids(options.mix.Loaded(options.records), options.operations);
  std::vector<ThreadSteps> threads(options.threads);
  for (uint32_t thread = 0; thread < options.threads; ++thread) {
    const uint64_t first = options.operations * thread / options.threads;
    const uint64_t past = options.operations * (thread + 1) / options.threads;
    bench::OperationStream stream(workload, options.theta, options.seed, thread, ids);
    threads[thread].warm_up = Draw(stream, (past - first) / 10);
    threads[thread].measured = Draw(stream, past - first);
  }
  return threads;
}

}  // namespace gossamer::lab
