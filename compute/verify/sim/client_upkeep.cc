// What a client does beside its operations: sweeps and repairs.
#include <fmt/core.h>

#include <functional>
#include <utility>

#include "compute/verify/sim/client.h"

namespace gossamer::simulator {
namespace {

// Streams of the seed: one for each client, counted downwards.
constexpr uint64_t kSweepStream = ~uint64_t{1'000'000};
constexpr uint64_t kExpireStream = ~uint64_t{3'000'000};
constexpr uint64_t kRepairStream = ~uint64_t{2'000'000};

// Does `once` at random times, at most `longest_us` apart, until `client` has no more work.
Task<void> NowAndThen(Scheduler& scheduler, Random random, uint32_t longest_us,
                      const SimulatedClient& client, std::function<Task<void>()> once) {
  const uint64_t longest_ns = uint64_t{longest_us} * 1000;
  for (;;) {
    co_await scheduler.SleepFor(std::chrono::nanoseconds(random.Below(longest_ns)));
    if (!client.has_work()) co_return;
    co_await once();
  }
}

}  // namespace

bool SimulatedClient::has_work() const {
  return !is_dead_ && !has_left_ && scene_.workload.begun() != scene_.plan.operations;
}

Task<void> SimulatedClient::SweepNowAndThen() {
  Scheduler& scheduler = sweeps_->scheduler();
  // It may fail: a server is out of reach, or somebody does not end what it began.
  const auto sweep = [this, &scheduler]() -> Task<void> {
    const Result<SweepReport> report = co_await store_->SweepOver(scheduler);
    if (!report) co_return;
    for (const auto& [server, memory] : report.value().servers) {
      scene_.given_back_bytes += memory.swept_bytes;
    }
  };
  return NowAndThen(scheduler, Random(scene_.plan.seed, kSweepStream - number_),
                    scene_.plan.work.sweep_us, *this, sweep);
}

Task<void> SimulatedClient::ExpireNowAndThen() {
  // It may fail: a server is out of reach.
  const auto expire = [this]() -> Task<void> {
    static_cast<void>(co_await expiries_->AsyncDeleteExpired({}));
  };
  return NowAndThen(expiries_->scheduler(), Random(scene_.plan.seed, kExpireStream - number_),
                    scene_.plan.work.expire_us, *this, expire);
}

Task<void> SimulatedClient::RepairNowAndThen() {
  // It may fail: a server is out of reach, or has no memory, or somebody does not end what it
  // began.
  const auto repair = [this]() -> Task<void> {
    if (scene_.lost.empty()) co_return;
    static_cast<void>(co_await Repair());
  };
  return NowAndThen(repairs_->scheduler(), Random(scene_.plan.seed, kRepairStream - number_),
                    scene_.plan.repair_us, *this, repair);
}

void SimulatedClient::StartRepair(std::optional<Result<RepairReport>>& ended) {
  repairs_->Spawn(
      [](SimulatedClient& client, std::optional<Result<RepairReport>>& into) -> Task<void> {
        into = co_await client.Repair();
      }(*this, ended));
}

Task<Result<RepairReport>> SimulatedClient::Repair() {
  LossRepairer::Options options;
  options.lost = scene_.lost;
  const size_t losses = scene_.recorder.losses();
  Result<RepairReport> report =
      co_await store_->RepairOver(repairs_->scheduler(), std::move(options));
  if (!report) co_return report;
  const RepairReport& done = report.value();
  // Whatever begins from here on finds what the repair has left (rules P3 and P4).
  scene_.recorder.EndLosses(losses);
  scene_.replaced_nodes += done.lost_leaves + done.lost_internal_nodes;
  scene_.recorder.Note(fmt::format("client {} has repaired the tree: {} leaves, {} other nodes",
                                   number_, done.lost_leaves, done.lost_internal_nodes));
  co_return report;
}

}  // namespace gossamer::simulator
