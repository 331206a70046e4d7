// OpenStore: sweeps, and what compute servers tell memory servers about them
// (control::SweepRequest).
#include <utility>

#include "compute/rules/rules.h"
#include "compute/session/control_client.h"
#include "compute/store/keeping/sweeper.h"
#include "compute/store/open_store.h"

namespace gossamer {
namespace {

// The memory server where a compute server says that it sweeps: each store has it.
constexpr ServerId kRegistry{0};

Result<control::SweepReply> Tell(Scheduler& scheduler, ServerId server, control::SweepStep step) {
  control::SweepRequest request;
  request.step = step;
  return scheduler.Run(CallControl<control::SweepReply>(scheduler.endpoint(), server, request));
}

// Errors: NodeUnreachable if one of them cannot be reached.
Result<bool> IsNeeded(Scheduler& scheduler, const Servers& servers) {
  bool is_needed = false;
  for (const ServerInfo* const server : servers.All()) {
    BOOST_OUTCOME_TRY(reply, Tell(scheduler, server->id, control::SweepStep::kAsk));
    is_needed = is_needed || reply.ended != reply.swept;
  }
  return is_needed;
}

}  // namespace

Result<SweepReport> OpenStore::Sweep(const std::function<bool(const SweepProgress&)>& progress) {
  BOOST_OUTCOME_TRY(endpoint, port_->NewEndpoint());
  Scheduler scheduler(*endpoint);
  return scheduler.Run(SweepOver(scheduler, progress));
}

Task<Result<SweepReport>> OpenStore::SweepOver(Scheduler& scheduler,
                                               std::function<bool(const SweepProgress&)> progress) {
  Sweeper sweeper(
      *shared_, scheduler, std::move(progress), [this] { keeper_->Hurry(); },
      [this] { return LearnServers(); });
  co_return co_await sweeper.Run();
}

Result<bool> OpenStore::NeedsSweep() {
  static_cast<void>(LearnServers());  // one that has left is not asked
  BOOST_OUTCOME_TRY(endpoint, port_->NewEndpoint());
  Scheduler scheduler(*endpoint);
  return IsNeeded(scheduler, shared_->servers);
}

Result<std::optional<SweepReport>> OpenStore::SweepIfNeeded(
    const std::function<bool(const SweepProgress&)>& progress) {
  BOOST_OUTCOME_TRY(endpoint, port_->NewEndpoint());
  Scheduler scheduler(*endpoint);
  BOOST_OUTCOME_TRY(begun, Tell(scheduler, kRegistry, control::SweepStep::kBegin));
  if (begun.is_sender == 0) return std::optional<SweepReport>();
  // After this process has become the sweeper: another one may just have ended.
  Result<std::optional<SweepReport>> result = std::optional<SweepReport>();
  const Result<bool> is_needed = IsNeeded(scheduler, shared_->servers);
  if (!is_needed) {
    result = is_needed.error();
  } else if (is_needed.value()) {
    Result<SweepReport> report = Sweep(progress);
    if (report) {
      result = std::optional(std::move(report.value()));
    } else {
      result = std::move(report.error());
    }
  }
  // If this does not arrive, the connection is broken: the lease ends, or the next sweep of this
  // process says it again.
  static_cast<void>(Tell(scheduler, kRegistry, control::SweepStep::kEnd));
  return result;
}

void OpenStore::SayFarewell(Scheduler& scheduler) {
  control::SweepRequest farewell;
  farewell.step = control::SweepStep::kFarewell;
  for (const ServerInfo* const server : shared_->servers.All()) {
    // Rule G3. Without a farewell the memory server asks for a sweep.
    if (!rules::MaySayFarewell(shared_->allocator.HasReleasedAll(server->id))) continue;
    if (!scheduler.endpoint().IsAttached(server->id)) continue;
    scheduler.Spawn(
        [](Endpoint& endpoint, ServerId to, control::SweepRequest request) -> Task<void> {
          // Without it the memory server has a sweep look for what is not there.
          static_cast<void>(co_await CallControl<control::SweepReply>(endpoint, to, request));
        }(scheduler.endpoint(), server->id, farewell));
  }
  scheduler.RunUntil(0);
}

}  // namespace gossamer
