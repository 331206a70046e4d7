// What a client does beside its operations: sweeps and repairs.
#include <fmt/core.h>

#include <utility>

#include "compute/verify/sim/client.h"

namespace gossamer::simulator {
namespace {

// Streams of the seed: one for each client, counted downwards.
constexpr uint64_t kSweepStream = ~uint64_t{1'000'000};
constexpr uint64_t kRepairStream = ~uint64_t{2'000'000};

}  // namespace

Task<void> SimulatedClient::NowAndThen(Scheduler& scheduler, uint64_t stream, uint32_t longest_us,
                                       Task<void> (SimulatedClient::*once)(Scheduler&)) {
  Random random(scene_.plan.seed, stream - number_);
  const uint64_t longest_ns = uint64_t{longest_us} * 1000;
  for (;;) {
    co_await scheduler.SleepFor(std::chrono::nanoseconds(random.Below(longest_ns)));
    const bool is_over =
        is_dead_ || has_left_ || scene_.workload.begun() == scene_.plan.operations;
    if (is_over) co_return;
    co_await (this->*once)(scheduler);
  }
}

Task<void> SimulatedClient::SweepNowAndThen() {
  return NowAndThen(sweeps_->tree().scheduler(), kSweepStream, scene_.plan.work.sweep_us,
                    &SimulatedClient::Sweep);
}

Task<void> SimulatedClient::RepairNowAndThen() {
  return NowAndThen(repairs_->tree().scheduler(), kRepairStream, scene_.plan.repair_us,
                    &SimulatedClient::RepairIfLost);
}

// It may fail: a server is out of reach, or somebody does not end what it began.
Task<void> SimulatedClient::Sweep(Scheduler& scheduler) {
  const Result<SweepReport> report = co_await store_->SweepOver(scheduler);
  if (!report) co_return;
  for (const auto& [server, memory] : report.value().servers) {
    scene_.given_back_bytes += memory.swept_bytes;
  }
}

// It may fail: a server is out of reach, or has no memory.
Task<void> SimulatedClient::RepairIfLost(Scheduler& /*scheduler*/) {
  if (scene_.lost.empty()) co_return;
  LossRepairer::Options options;
  options.lost = scene_.lost;
  const Result<RepairReport> report = co_await repairs_->tree().RepairLosses(std::move(options));
  if (report) NoteRepair(report.value());
}

void SimulatedClient::NoteRepair(const RepairReport& report) {
  scene_.replaced_nodes += report.lost_leaves + report.lost_internal_nodes;
  scene_.recorder.Note(fmt::format("client {} has repaired the tree: {} leaves, {} other nodes",
                                   number_, report.lost_leaves, report.lost_internal_nodes));
}

}  // namespace gossamer::simulator
