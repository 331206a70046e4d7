// RemoteAllocator: the extents that memory servers grant it, and get back when the store is closed.
#include <algorithm>
#include <optional>
#include <utility>

#include "compute/allocation/remote_allocator.h"
#include "compute/session/control_client.h"

namespace gossamer {
namespace {

// A full server is asked again after this long: others may have given memory back.
constexpr std::chrono::milliseconds kFullRetry{500};
// A coroutine that waits for another's refill asks itself after this time.
constexpr std::chrono::milliseconds kRefillBound{200};
// Memory goes back in multiples of this, so that it is aligned for any use.
constexpr uint64_t kReleaseGrain = 4096;

}  // namespace

Task<Result<RemoteAllocator::Piece>> RemoteAllocator::AllocateOn(Scheduler& scheduler,
                                                                 ServerId server, Wanted wanted,
                                                                 bool although_down,
                                                                 WireCounts& wire) {
  for (;;) {
    const std::optional<Piece> piece = Cut(server, wanted);
    if (piece) co_return *piece;
    if (!although_down) {
      const std::lock_guard lock(mutex_);
      if (IsDown(server, scheduler.Now())) {
        co_return MakeError(Code::kNodeUnreachable, "it was lost by another operation");
      }
    }
    if (!StartRefill(server, scheduler.Now())) {
      co_await AwaitRefill(scheduler, server);
      continue;
    }
    Status answered = co_await ConfirmOrRefill(scheduler, server, wanted, wire);
    EndRefill(server);
    BOOST_OUTCOME_CO_TRYV(std::move(answered));
  }
}

bool RemoteAllocator::StartRefill(ServerId server, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  RefillUnderWay& refill = refills_[server];
  if (now < refill.until) return false;
  refill.until = now + kRefillBound;
  return true;
}

void RemoteAllocator::EndRefill(ServerId server) {
  const std::lock_guard lock(mutex_);
  RefillUnderWay& refill = refills_[server];
  refill.until = {};
  for (Scheduler::Sleeper* waiter : refill.waiters) Scheduler::Wake(*waiter);
  refill.waiters.clear();
}

Task<void> RemoteAllocator::AwaitRefill(Scheduler& scheduler, ServerId server) {
  Scheduler::Sleeper waiter(scheduler);
  Clock::duration at_most{};
  {
    const std::lock_guard lock(mutex_);
    RefillUnderWay& refill = refills_[server];
    at_most = refill.until - scheduler.Now();
    if (at_most <= Clock::duration{}) co_return;
    refill.waiters.push_back(&waiter);
  }
  if (co_await Scheduler::SleepUntilWoken(waiter, at_most)) co_return;
  bool is_forgotten = false;
  {
    const std::lock_guard lock(mutex_);
    is_forgotten = std::erase(refills_[server].waiters, &waiter) != 0;
  }
  if (!is_forgotten) co_await Scheduler::SleepUntilWoken(waiter);  // the refill has just ended
}

Task<Status> RemoteAllocator::ConfirmOrRefill(Scheduler& scheduler, ServerId server, Wanted wanted,
                                              WireCounts& wire) {
  uint64_t asked_at = 0;
  bool needs_memory = false;
  {
    const std::lock_guard lock(mutex_);
    asked_at = registrations_;
    needs_memory = IsConfirmed(server) || state_[server].granted.empty();
  }
  if (needs_memory) co_return co_await Refill(scheduler, server, wanted, asked_at, wire);
  ++wire.sends;
  ++wire.round_trips;
  const Result<Registration> registered = co_await RegisterOver(scheduler.endpoint(), server);
  const std::lock_guard lock(mutex_);
  if (!registered) co_return registered.error();
  ForgetOlder(server, registered.value().lease);
  Confirm(server, registered.value().lease, asked_at);
  co_return Ok();
}

void RemoteAllocator::Confirm(ServerId server, const Lease& lease, uint64_t asked_at) {
  PerServer& state = state_[server];
  if (lease == state.lease) state.confirmed = std::max(state.confirmed, asked_at);
}

Task<Status> RemoteAllocator::Refill(Scheduler& scheduler, ServerId server, Wanted wanted,
                                     uint64_t asked_at, WireCounts& wire) {
  control::AllocateRequest request;
  request.bytes = wanted.bytes;
  request.kind = wanted.kind;
  ++wire.sends;
  ++wire.round_trips;
  const Result<control::AllocateReply> answer =
      co_await CallControl<control::AllocateReply>(scheduler.endpoint(), server, request);
  const ServerInfo* info = servers_.Find(server);
  const std::lock_guard lock(mutex_);
  if (!answer) {
    PerServer& state = state_[server];
    if (answer.error().code == Code::kExhausted) {
      state.refused[wanted.kind] = {scheduler.Now() + kFullRetry, wanted.bytes};
    }
    co_return answer.error();
  }
  const control::AllocateReply& reply = answer.value();
  // This reply may be the first news of a lease newer than the request. Or the extent belongs to a
  // lease that has ended, and is abandoned with it.
  const Lease lease{static_cast<ComputeId>(reply.compute_id), reply.incarnation};
  ForgetOlder(server, lease);
  PerServer& state = state_[server];
  if (lease != state.lease) {
    co_return MakeError(Code::kFenced, "it ended this compute server's lease meanwhile");
  }
  Confirm(server, lease, asked_at);
  placement_.Learn(server, reply.usage, info->chunk_bytes);
  placement_.Granted(server, wanted.kind, reply.bytes);
  std::vector<Extent>& extents = state.of(wanted.kind);
  const Extent fresh{reply.offset, reply.offset + reply.bytes};
  state.granted[fresh.next] = fresh.end;
  if (!extents.empty() && extents.back().end == fresh.next) {
    extents.back().end = fresh.end;  // the server found adjacent room
  } else {
    extents.push_back(fresh);
  }
  co_return Ok();
}

Task<void> RemoteAllocator::ReleaseAll(Scheduler& scheduler) {
  std::map<ServerId, std::vector<Extent>> unused;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [server, state] : state_) {
      const bool is_down = IsDown(server, scheduler.Now());
      for (std::vector<Extent>* extents : {&state.nodes, &state.blocks}) {
        for (const Extent& extent : *extents) {
          const uint64_t from = (extent.next + kReleaseGrain - 1) / kReleaseGrain * kReleaseGrain;
          if (from < extent.end && !is_down) unused[server].push_back({from, extent.end});
        }
        extents->clear();
      }
    }
  }
  for (auto& [server, extents] : unused) {
    scheduler.Spawn(Release(scheduler, server, std::move(extents)));
  }
  co_return;
}

// Cost: 1 RT for each extent.
Task<void> RemoteAllocator::Release(Scheduler& scheduler, ServerId server,
                                    std::vector<Extent> extents) {
  Endpoint& endpoint = scheduler.endpoint();
  bool may_reconnect = true;
  for (auto extent = extents.begin(); extent != extents.end();) {
    control::ReleaseRequest request;
    request.offset = extent->next;
    request.bytes = extent->end - extent->next;
    const Clock::time_point asked_at = scheduler.Now();
    const Result<control::ReleaseReply> reply =
        co_await CallControl<control::ReleaseReply>(endpoint, server, request);
    if (reply || reply.error().code != Code::kNodeUnreachable) {
      ++extent;  // the refusal concerns this extent only: its lease has ended
      continue;
    }
    // The queue pair may have been lost long ago. A silent server is not tried again.
    const bool is_silent = scheduler.Now() - asked_at >= kSilentRegistration;
    if (is_silent || !std::exchange(may_reconnect, false)) co_return;
    const Result<Registration> registered = co_await ReplaceAndRegister(endpoint, server);
    if (!registered) co_return;
  }
}

}  // namespace gossamer
