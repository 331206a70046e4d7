// RemoteAllocator: the extents that memory servers grant it, and get back when the store is closed.
#include <glog/logging.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "compute/allocation/remote_allocator.h"
#include "compute/rules/rules.h"
#include "compute/session/control_client.h"

namespace gossamer {
namespace {

// A full server is asked again after this long: others may have given memory back.
constexpr std::chrono::milliseconds kFullRetry{500};
// A coroutine that waits for another's refill asks itself after this time.
constexpr std::chrono::milliseconds kRefillBound{200};

// Whether the servers, which have `total`, have become nearly full. Warns if so.
bool AreNearlyFull(const control::Usage& total, FillAlarm& alarm) {
  const uint32_t percent = alarm.Update(total.heap_bytes - total.free_bytes, total.heap_bytes);
  if (percent == 0) return false;
  const bool is_small = total.heap_bytes >> 20 == 0;
  LOG(WARNING) << percent << " % of the memory servers' "
               << (total.heap_bytes >> (is_small ? 10 : 20)) << (is_small ? " KiB" : " MiB")
               << " is handed out: " << kFullRemedy;
  return true;
}

}  // namespace

Task<Result<RemoteAllocator::Piece>> RemoteAllocator::AllocateOn(Asker asker, ServerId server,
                                                                 Wanted wanted,
                                                                 bool although_down) {
  Scheduler& scheduler = asker.scheduler;
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
    Status answered = co_await ConfirmOrRefill(asker, server, wanted);
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

Task<Status> RemoteAllocator::ConfirmOrRefill(Asker asker, ServerId server, Wanted wanted) {
  uint64_t asked_at = 0;
  bool needs_memory = false;
  {
    const std::lock_guard lock(mutex_);
    asked_at = registrations_;
    needs_memory = IsConfirmed(server) || state_[server].granted.empty();
  }
  if (needs_memory) co_return co_await Refill(asker, server, wanted, asked_at);
  ++asker.wire.sends;
  ++asker.wire.round_trips;
  const Result<Registration> registered = co_await RegisterOver(asker.scheduler.endpoint(), server);
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

Task<Status> RemoteAllocator::Refill(Asker asker, ServerId server, Wanted wanted,
                                     uint64_t asked_at) {
  Scheduler& scheduler = asker.scheduler;
  control::AllocateRequest request;
  request.bytes = wanted.bytes;
  request.kind = wanted.kind;
  ++asker.wire.sends;
  ++asker.wire.round_trips;
  const bool is_sent = scheduler.endpoint().WorkingQueuePairId(server) != 0;
  const Result<control::AllocateReply> answer =
      co_await CallControl<control::AllocateReply>(scheduler.endpoint(), server, request);
  const ServerInfo* info = servers_.Find(server);
  const std::lock_guard lock(mutex_);
  if (!answer) {
    PerServer& state = state_[server];
    if (answer.error().code == Code::kExhausted) {
      state.refused[wanted.kind] = {scheduler.Now() + kFullRetry, wanted.bytes};
    } else if (is_sent && answer.error().code == Code::kNodeUnreachable) {
      LeaveBehind();  // what the server has granted, perhaps
    }
    co_return answer.error();
  }
  const control::AllocateReply& reply = answer.value();
  // This reply may be the first news of a lease newer than the request. Or the extent belongs to a
  // lease that has ended, and is abandoned with it.
  const Lease lease{static_cast<ComputeId>(reply.compute_id), reply.incarnation};
  ForgetOlder(server, lease);
  PerServer& state = state_[server];
  if (!rules::IsGrantedTo(lease == state.lease)) {
    co_return MakeError(Code::kFenced, "it ended this compute server's lease meanwhile");
  }
  Confirm(server, lease, asked_at);
  // Memory comes back: a refusal that follows is waited for as well.
  if (const Clock::time_point now = scheduler.Now(); now < waits_until_) {
    waits_until_ = now + patience_;
  }
  placement_.Learn(server, reply.usage, info->chunk_bytes);
  if (AreNearlyFull(placement_.Total(), alarm_)) events_.OnShortage();
  std::vector<Extent>& extents = state.of(wanted.kind);
  const auto grant = [&](const Extent& fresh) {
    placement_.Granted(server, wanted.kind, fresh.end - fresh.next);
    // Memory that others gave back was granted before.
    Ungrant(server, fresh.next, fresh.end - fresh.next);
    state.granted[fresh.next] = fresh.end;
    if (!extents.empty() && extents.back().end == fresh.next &&
        extents.back().generation == fresh.generation) {
      extents.back().end = fresh.end;  // the server found adjacent room
    } else {
      extents.push_back(fresh);
    }
  };
  // The first one last: of the newest, memory is cut first.
  for (size_t i = std::min(reply.more, control::AllocateReply::kMaxMore); i-- > 0;) {
    const control::GrantedRange& more = reply.extents[i];
    grant({more.offset, more.offset + more.bytes, more.generation});
  }
  grant({reply.offset, reply.offset + reply.bytes, reply.generation});
  co_return Ok();
}

RemoteAllocator::Refusal RemoteAllocator::JudgeRefusal(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (now < waits_until_) return Refusal::kWait;
  if (now < waits_again_from_ || patience_.count() == 0) return Refusal::kFinal;
  waits_again_from_ = now + kBetweenWaits;
  waits_until_ = now + patience_;
  return Refusal::kAskForOthers;
}

void RemoteAllocator::EndWait() {
  const std::lock_guard lock(mutex_);
  waits_until_ = {};
}

bool RemoteAllocator::GiveUpUnused() {
  const std::lock_guard lock(mutex_);
  LeaveUnused();
  return returns_under_way_ != 0 || std::ranges::any_of(returns_, [](const auto& each) {
           return !each.second.ranges.empty();
         });
}

void RemoteAllocator::LeaveUnused() {
  for (auto& [bytes, freed] : freed_blocks_) {
    for (const FreedBlock& block : freed) {
      const BlockPtr pointer = block.pointer;
      ReturnFreed(pointer.server(),
                  {pointer.offset(), bytes, pointer.generation(), control::Past::kUsed});
    }
    freed.clear();
  }
  for (auto& [server, state] : state_) {
    for (const RemotePtr node : state.freed_nodes) {
      ReturnFreed(server, {node.offset(), node_bytes_, node.generation(), control::Past::kUnused});
    }
    state.freed_nodes.clear();
    for (std::vector<Extent>* extents : {&state.nodes, &state.blocks}) {
      for (const Extent& extent : *extents) {
        ReturnFreed(server, {extent.next, extent.end - extent.next, extent.generation,
                             control::Past::kUnused});
      }
      extents->clear();
    }
  }
}

Task<void> RemoteAllocator::ReleaseAll(Scheduler& scheduler) {
  {
    const std::lock_guard lock(mutex_);
    LeaveUnused();
  }
  for (const ServerInfo* server : servers_.All()) {
    scheduler.Spawn(GiveBackTo(scheduler, server->id, true));
  }
  co_return;
}

bool RemoteAllocator::HasReleasedAll(ServerId server) {
  const std::lock_guard lock(mutex_);
  return !has_left_memory_ && returns_[server].ranges.empty();
}

bool RemoteAllocator::AreReturnsDue(const Endpoint& endpoint) {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(returns_, [&](const auto& each) {
    const auto& [server, returns] = each;
    return FillsARequest(returns.ranges) && state_[server].lease &&
           endpoint.WorkingQueuePairId(server) != 0;
  });
}

Task<void> RemoteAllocator::GiveBackReturns(Scheduler& scheduler) {
  for (const ServerInfo* server : servers_.All()) co_await GiveBackTo(scheduler, server->id);
}

Task<void> RemoteAllocator::GiveBackTo(Scheduler& scheduler, ServerId server, bool reconnects) {
  std::optional<ReturnedMemory> taken;
  {
    const std::lock_guard lock(mutex_);
    if (reconnects && IsDown(server, scheduler.Now())) co_return;
    taken = returns_[server].Take(state_[server].lease);
    if (!taken) co_return;
    ++returns_under_way_;
  }
  ReturnOutcome outcome;
  if (reconnects) {
    outcome = co_await ReconnectAndReturn(scheduler, server, *taken);
  } else {
    outcome = co_await ReturnMemory(scheduler, server, *taken);
  }
  const std::lock_guard lock(mutex_);
  PerServer& state = state_[server];
  state.refused.clear();
  if (outcome.is_left) LeaveBehind();
  // With another lease, the one before has ended, and all requests under it.
  const bool is_same = state.lease == taken->lease;
  if (is_same && outcome.carrier != 0) unknown_returns_.emplace(server, outcome.carrier);
  returns_[server].PutBack(is_same ? taken->ranges : std::vector<control::Range>());
  --returns_under_way_;
}

bool RemoteAllocator::HasOverdueReturns(ServerId server) {
  const std::lock_guard lock(mutex_);
  return returns_[server].is_overdue;
}

bool RemoteAllocator::HasReturnsUnderWay(ServerId server) {
  const std::lock_guard lock(mutex_);
  const Returns& returns = returns_[server];
  return returns.is_overdue || returns.under_way != 0;
}

// Between the offer and the request, a session may be granted some of the memory again. The server
// knows that (rule G1): it keeps it for this compute server. That has then forgotten here that it
// owns it, and gives it back after use.
Task<bool> RemoteAllocator::GiveUp(Scheduler& scheduler, ServerId server,
                                   control::RenewReply offer) {
  control::GiveUpRequest request;
  {
    const std::lock_guard lock(mutex_);
    const PerServer& state = state_[server];
    if (!state.lease) co_return false;
    request.offer = offer.offer;
    request.compute_id = static_cast<uint16_t>(state.lease->compute);
    request.incarnation = state.lease->incarnation;
    const uint16_t waiting = std::min(offer.waiting, control::RenewReply::kMaxRanges);
    for (const auto& [offset, bytes] : std::span(offer.ranges, waiting)) {
      // First: once the server has it back, it may be another's.
      Ungrant(server, offset, bytes);
    }
  }
  const Result<control::GiveUpReply> reply =
      co_await CallControl<control::GiveUpReply>(scheduler.endpoint(), server, request);
  // After a failure the memory waits, and is offered again.
  co_return reply&& reply.value().bytes != 0;
}

RemoteAllocator::Granted RemoteAllocator::GrantedOn(ServerId server) {
  const std::lock_guard lock(mutex_);
  return {state_[server].lease, state_[server].granted};
}

std::optional<uint64_t> RemoteAllocator::UnknownReturn(ServerId server) const {
  const std::lock_guard lock(mutex_);
  const auto first = unknown_returns_.lower_bound({server, 0});
  if (first == unknown_returns_.end() || first->first != server) return std::nullopt;
  return first->second;
}

void RemoteAllocator::Destroyed(ServerId server, uint64_t carrier) {
  const std::lock_guard lock(mutex_);
  unknown_returns_.erase({server, carrier});
}

}  // namespace gossamer
