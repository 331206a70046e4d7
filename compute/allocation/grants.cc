// RemoteAllocator: the extents that memory servers grant it, and get back when the store is closed.
#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "compute/allocation/remote_allocator.h"
#include "compute/session/control_client.h"

namespace gossamer {
namespace {

// A full server is asked again after this long: others may have given memory back.
constexpr std::chrono::milliseconds kFullRetry{500};
// A coroutine that waits for another's refill asks itself after this time.
constexpr std::chrono::milliseconds kRefillBound{200};

// Of memory that a memory server may hand out for blocks.
uint8_t NextGeneration(RemotePtr node) {
  return static_cast<uint8_t>((node.generation() + 1u) % BlockPtr::kGenerations);
}
// Makes one range of neighbours that have the same past.
void Join(std::vector<control::Range>& ranges) {
  std::ranges::sort(ranges, {}, &control::Range::offset);
  size_t last = 0;
  for (size_t i = 1; i < ranges.size(); ++i) {
    const control::Range& range = ranges[i];
    control::Range& before = ranges[last];
    if (before.offset + before.bytes == range.offset && before.generation == range.generation &&
        before.was_used == range.was_used) {
      before.bytes += range.bytes;
    } else {
      ranges[++last] = range;
    }
  }
  if (!ranges.empty()) ranges.resize(last + 1);
}

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
  const Extent fresh{reply.offset, reply.offset + reply.bytes, reply.generation};
  // Memory that others gave back was granted before.
  Ungrant(server, fresh.next, reply.bytes);
  state.granted[fresh.next] = fresh.end;
  if (!extents.empty() && extents.back().end == fresh.next &&
      extents.back().generation == fresh.generation) {
    extents.back().end = fresh.end;  // the server found adjacent room
  } else {
    extents.push_back(fresh);
  }
  co_return Ok();
}

Task<void> RemoteAllocator::ReleaseAll(Scheduler& scheduler) {
  std::map<ServerId, std::pair<Lease, Ranges>> returns;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [bytes, freed] : freed_blocks_) {
      for (const FreedBlock& block : freed) ReturnFreed(block.pointer, bytes);
      freed.clear();
    }
    for (const RemotePtr node : returned_nodes_) {
      returns_[node.server()].push_back({node.offset(), node_bytes_, NextGeneration(node), 1, {}});
    }
    returned_nodes_.clear();
    for (auto& [server, ranges] : returns_) returns[server].second = std::move(ranges);
    returns_.clear();
    for (auto& [server, state] : state_) {
      for (std::vector<Extent>* extents : {&state.nodes, &state.blocks}) {
        for (const Extent& extent : *extents) {
          if (extent.next == extent.end) continue;
          returns[server].second.push_back(
              {extent.next, extent.end - extent.next, extent.generation, 0, {}});
        }
        extents->clear();
      }
    }
    std::erase_if(returns, [&](const auto& each) { return IsDown(each.first, scheduler.Now()); });
    for (auto& [server, freed] : returns) freed.first = state_[server].lease.value_or(Lease{});
  }
  for (auto& [server, freed] : returns) {
    scheduler.Spawn(ReconnectAndRelease(scheduler, server, freed.first, std::move(freed.second)));
  }
  co_return;
}

Task<void> RemoteAllocator::GiveBackReturns(Scheduler& scheduler) {
  std::map<ServerId, std::pair<Lease, Ranges>> returns;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [server, ranges] : returns_) {
      const std::optional<Lease>& lease = state_[server].lease;
      if (lease) returns[server] = {*lease, std::exchange(ranges, {})};
    }
  }
  for (auto& [server, freed] : returns) {
    co_await Release(scheduler, server, freed.first, std::move(freed.second));
  }
}

// Cost: 1 RT for each few ranges.
Task<void> RemoteAllocator::Release(Scheduler& scheduler, ServerId server, Lease lease,
                                    Ranges ranges) {
  Endpoint& endpoint = scheduler.endpoint();
  Join(ranges);
  for (size_t first = 0; first < ranges.size();) {
    const auto rest = std::span(ranges).subspan(first);
    control::ReleaseRequest request;
    request.compute_id = static_cast<uint16_t>(lease.compute);
    request.incarnation = lease.incarnation;
    request.count =
        static_cast<uint16_t>(std::min<size_t>(rest.size(), control::ReleaseRequest::kMaxRanges));
    std::copy_n(rest.begin(), request.count, request.ranges);
    first += request.count;
    const Result<control::ReleaseReply> reply =
        co_await CallControl<control::ReleaseReply>(endpoint, server, request);
    // What is refused, or of unknown outcome, is left to a sweeper.
    if (!reply && reply.error().code == Code::kNodeUnreachable) co_return;
  }
}

// The queue pair may have been lost long ago, or this compute server has never registered there. A silent server is not
// tried again.
Task<void> RemoteAllocator::ReconnectAndRelease(Scheduler& scheduler, ServerId server, Lease lease,
                                                Ranges ranges) {
  Endpoint& endpoint = scheduler.endpoint();
  const Clock::time_point asked_at = scheduler.Now();
  const Result<control::RenewReply> renewed =
      co_await CallControl<control::RenewReply>(endpoint, server, control::RenewRequest{});
  if (!renewed && renewed.error().code == Code::kNodeUnreachable) {
    if (scheduler.Now() - asked_at >= kSilentRegistration) co_return;
    const Result<Registration> registered = co_await ReplaceAndRegister(endpoint, server);
    if (!registered) co_return;
  }
  if (lease == Lease{}) {
    const Result<Registration> registered = co_await RegisterOver(endpoint, server);
    if (!registered) co_return;
    lease = registered.value().lease;
  }
  co_await Release(scheduler, server, lease, std::move(ranges));
}

}  // namespace gossamer
