#include "compute/allocation/remote_allocator.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <algorithm>
#include <bitset>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "common/set_bits.h"
#include "compute/rules/rules.h"
#include "compute/session/control_client.h"

namespace gossamer {
namespace {

// An unreachable server is left out for so long at first, and at most.
constexpr std::chrono::milliseconds kDownRetry{500};
constexpr std::chrono::milliseconds kLongestDownRetry{16'000};
// Freed nodes of a server that are kept for the next use; of more, half go back to the server,
// where others get them too.
constexpr size_t kMostFreedNodes = 2048;
// Another coroutine's memory on its way back to a full server is waited for so often.
constexpr int kMostWaits = 100;
constexpr std::chrono::microseconds kReturnInterval{100};
// Try at most so many of the newest extents before asking for a new one.
constexpr size_t kExtentsTried = 8;

constexpr ServerId kServerOfRoot{0};

std::string NameOf(ServerId server) { return fmt::format("memory server {}", ToInteger(server)); }

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

// Between two tries of an operation that waits for memory: less than kFullRetry.
constexpr std::chrono::milliseconds kRetryInterval{100};

void NotePassedOver(Op& op, const Loss& lost, bool has_memory) {
  op.lacks_memory = !has_memory;
  if (has_memory) {
    op.passed_over = lost;
  } else {
    op.NoteLoss(lost);
  }
}

}  // namespace

Task<Result<Allocated<RemotePtr>>> RemoteAllocator::AllocateNode(Asker asker, ServerId near,
                                                                 NodeKind kind) {
  const bool is_internal = kind == NodeKind::kInternal;
  const Wanted wanted{control::ExtentKind::kNodes, node_bytes_, is_internal};
  BOOST_OUTCOME_CO_TRY(piece, co_await Allocate(asker, near, wanted));
  const RemotePtr node(piece.server, piece.offset, piece.generation);
  co_return Allocated<RemotePtr>(*this, node, node_bytes_, piece.stamp);
}

Task<Result<Allocated<BlockPtr>>> RemoteAllocator::AllocateBlock(Asker asker,
                                                                 std::optional<ServerId> near,
                                                                 uint32_t length) {
  const uint32_t bytes = BlockBytes(length);
  {
    const std::lock_guard lock(mutex_);
    const std::optional<BlockPtr> block = TakeFreed(bytes, near, asker.scheduler.Now());
    if (block) co_return Allocated<BlockPtr>(*this, *block, bytes, StampAt(block->server()));
  }
  const Wanted wanted{control::ExtentKind::kBlocks, bytes};
  const Result<Piece> piece = co_await Allocate(asker, near, wanted);
  if (piece) {
    const BlockPtr block(piece.value().server, piece.value().offset, piece.value().generation);
    co_return Allocated<BlockPtr>(*this, block, bytes, piece.value().stamp);
  }
  // As a last resort reuse memory within its grace: a late reader notices the change.
  const std::lock_guard lock(mutex_);
  const std::optional<BlockPtr> block = TakeFreed(bytes, {}, Clock::time_point::max());
  if (!block) co_return piece.error();
  co_return Allocated<BlockPtr>(*this, *block, bytes, StampAt(block->server()));
}

void RemoteAllocator::TakeBlocks(std::optional<ServerId> near, Clock::time_point now,
                                 std::span<BlockWish> wishes) {
  uint32_t most = 0;
  for (const BlockWish& wish : wishes) most = std::max(most, BlockBytes(wish.length));
  const Candidates candidates = FindCandidates(near, {control::ExtentKind::kBlocks, most}, now);
  if (candidates.up.empty()) return;
  const ServerId server = candidates.up.front();
  const std::lock_guard lock(mutex_);
  const AllocationStamp stamp = StampAt(server);
  const auto take = [&](BlockWish& wish, uint32_t bytes, BlockPtr block) {
    wish.memory = Allocated<BlockPtr>(*this, block, bytes, stamp);
  };
  for (auto wish = wishes.begin(); wish != wishes.end();) {
    const uint32_t bytes = BlockBytes(wish->length);
    const auto alike_end = std::find_if(wish, wishes.end(), [bytes](const BlockWish& other) {
      return BlockBytes(other.length) != bytes;
    });
    FreedBlocks& freed = freed_blocks_[{bytes, server}];
    while (wish != alike_end && IsConfirmed(server)) {
      const std::optional<BlockPtr> block = freed.Take(now);
      if (!block) break;
      take(*wish++, bytes, *block);
    }
    // The others lie one behind the other, as far as an extent goes.
    while (wish != alike_end) {
      auto count = static_cast<uint64_t>(alike_end - wish);
      std::optional<Piece> run = Cut(server, {control::ExtentKind::kBlocks, count * bytes});
      if (!run) {
        count = 1;
        run = Cut(server, {control::ExtentKind::kBlocks, bytes});
      }
      if (!run) return;
      for (; count != 0; --count, run->offset += bytes) {
        take(*wish++, bytes, BlockPtr(run->server, run->offset, run->generation));
      }
    }
  }
}

std::optional<BlockPtr> RemoteAllocator::TakeFreed(uint32_t bytes, std::optional<ServerId> near,
                                                   Clock::time_point now) {
  const auto take = [&](ServerId server, FreedBlocks& freed) {
    const bool may_use = !IsDown(server, now) && IsConfirmed(server);
    return may_use ? freed.Take(now) : std::nullopt;
  };
  if (const auto here = near ? freed_blocks_.find({bytes, *near}) : freed_blocks_.end();
      here != freed_blocks_.end()) {
    if (const std::optional<BlockPtr> taken = take(*near, here->second)) return taken;
  }
  auto each = freed_blocks_.lower_bound({bytes, ServerId{0}});
  for (; each != freed_blocks_.end() && each->first.first == bytes; ++each) {
    if (const auto taken = take(each->first.second, each->second)) return taken;
  }
  return std::nullopt;
}

void RemoteAllocator::GiveBack(RemotePtr node, uint32_t /*bytes*/, const AllocationStamp& stamp) {
  const std::lock_guard lock(mutex_);
  if (IsOfPresentLease(stamp)) state_[node.server()].freed_nodes.push_back(node);
}

void RemoteAllocator::GiveBack(BlockPtr block, uint32_t bytes, const AllocationStamp& stamp) {
  const std::lock_guard lock(mutex_);
  // No reader can have seen the block: it need not wait.
  if (IsOfPresentLease(stamp)) freed_blocks_[{bytes, block.server()}].all.push_front({block, {}});
}

// The stamp decides, not the address: a sweeper may have granted that to others, or to us again.
bool RemoteAllocator::IsOfPresentLease(const AllocationStamp& stamp) const {
  return rules::IsGranted(since_[ToInteger(stamp.server)], stamp.registrations);
}

bool RemoteAllocator::FreeBlocks(std::span<const BlockRef> blocks, Clock::time_point now,
                                 uint64_t began) {
  bool are_returns_due = false;
  const std::lock_guard lock(mutex_);
  for (const BlockRef& block : blocks) {
    const BlockPtr pointer = block.ptr();
    const ServerId server = pointer.server();
    const uint32_t bytes = BlockBytes(block.length);
    if (!MayFree(server, began)) {
      LeaveBehind();
    } else if (IsOurs(server, pointer.offset())) {
      freed_blocks_[{bytes, server}].all.push_back({pointer, now + kGrace});
    } else {
      ReturnFreed(server, {pointer.offset(), bytes, pointer.generation(), control::Past::kUsed});
      are_returns_due = are_returns_due || FillsARequest(returns_[server].ranges);
    }
  }
  return are_returns_due;
}

bool RemoteAllocator::FreeNode(RemotePtr node, uint64_t began) {
  const std::lock_guard lock(mutex_);
  if (!MayFree(node.server(), began)) {
    LeaveBehind();
    return false;
  }
  // After the last generation the memory server decides when its memory is used for nodes again.
  const bool is_last = node.generation() + 1u == RemotePtr::kGenerations;
  if (!is_last && IsOurs(node.server(), node.offset())) {
    std::deque<RemotePtr>& freed = state_[node.server()].freed_nodes;
    freed.push_back(rules::NextUse(node));
    if (freed.size() >= kMostFreedNodes) ReturnHalf(node.server(), freed);
  } else {
    ReturnFreed(node.server(),
                {node.offset(), node_bytes_, node.generation(), control::Past::kUsed});
  }
  return FillsARequest(returns_[node.server()].ranges);
}

// Those with the lowest offsets: the others may fill chunks one day.
void RemoteAllocator::ReturnHalf(ServerId server, std::deque<RemotePtr>& freed) {
  for (size_t rest = freed.size() / 2; rest != 0; --rest) {
    const RemotePtr node = freed.front();
    freed.pop_front();
    ReturnFreed(server, {node.offset(), node_bytes_, node.generation(), control::Past::kUnused});
  }
}

std::optional<RemoteAllocator::Piece> RemoteAllocator::TakeFreedNode(ServerId server) {
  std::deque<RemotePtr>& freed = state_[server].freed_nodes;
  if (freed.empty()) return std::nullopt;
  const RemotePtr node = freed.front();
  freed.pop_front();
  return Piece{server, node.offset(), node.generation(), StampAt(server)};
}

void RemoteAllocator::ReturnFreed(ServerId server, const control::Range& range) {
  Ungrant(server, range.offset, range.bytes);
  returns_[server].ranges.push_back(range);
}

void RemoteAllocator::Ungrant(ServerId server, uint64_t offset, uint64_t bytes) {
  std::map<uint64_t, uint64_t>& granted = state_[server].granted;
  const uint64_t end = offset + bytes;
  // A piece may lie in two extents.
  auto extent = granted.lower_bound(end);
  while (extent != granted.begin()) {
    --extent;
    const uint64_t extent_end = extent->second;
    if (extent_end <= offset) return;
    if (extent_end > end) granted[end] = extent_end;
    if (extent->first < offset) {
      extent->second = offset;
      return;
    }
    extent = granted.erase(extent);
  }
}

// Whether this compute server carved it under its present lease.
bool RemoteAllocator::IsOurs(ServerId server, uint64_t offset) {
  if (!rules::ForgetsOldGrants()) return true;
  const std::map<uint64_t, uint64_t>& granted = state_[server].granted;
  const auto behind = granted.upper_bound(offset);
  return behind != granted.begin() && std::prev(behind)->second > offset;
}

bool RemoteAllocator::MayLink(const LinkedMemory& memory, ServerId from) const {
  if (memory.IsEmpty()) return true;
  const auto is_lost = [&](size_t server) {
    return !rules::IsStillGranted(since_[server].load(std::memory_order_acquire), memory.oldest());
  };
  if (is_lost(ToInteger(from))) return false;
  for (size_t word = 0; word < memory.servers().size(); ++word) {
    for (const uint32_t bit : SetBits(memory.servers()[word])) {
      if (is_lost(word * LinkedMemory::kBits + bit)) return false;
    }
  }
  return true;
}

uint64_t RemoteAllocator::Registered(ServerId server, const Registration& registration) {
  const ServerInfo* info = servers_.Find(server);
  const std::lock_guard lock(mutex_);
  ForgetOlder(server, registration.lease);
  PerServer& state = state_[server];
  state.down_until = {};
  state.down_for = {};
  if (info != nullptr) placement_.Learn(server, registration.usage, info->chunk_bytes);
  const uint64_t since = registration.lease == state.lease ? since_[ToInteger(server)].load() : 0;
  return rules::UsableSince(since);
}

// Does nothing if another session has already learned of a newer lease.
void RemoteAllocator::ForgetOlder(ServerId server, const Lease& lease) {
  const std::optional<Lease>& known = state_[server].lease;
  const bool is_old =
      known && (lease == *known || (lease.compute == known->compute && IsOlder(lease, *known)));
  if (!is_old) Forget(server, lease);
}

void RemoteAllocator::Forget(ServerId server, const Lease& lease) {
  PerServer& state = state_[server];
  // The operations that count the new lease among those before them find nothing of the past in the
  // cache (rule R9).
  const uint64_t leases = registrations_ + 1;
  if (on_new_lease_ && rules::ForgetsPointers()) on_new_lease_(leases);
  since_[ToInteger(server)].store(leases, std::memory_order_release);
  registrations_.store(leases, std::memory_order_release);
  if (!rules::ForgetsOldGrants()) {
    state.lease = lease;
    return;
  }
  state = {};
  state.lease = lease;
  placement_.Lost(server);
  returns_[server].ranges.clear();
  returns_[server].is_overdue = false;
  std::erase_if(unknown_returns_, [server](const auto& one) { return one.first == server; });
  std::erase_if(freed_blocks_, [server](const auto& each) { return each.first.second == server; });
}

void RemoteAllocator::Lost(ServerId server, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  PerServer& state = state_[server];
  if (state.down_until > now) return;  // several sessions may report the same loss
  state.down_for = std::clamp(2 * state.down_for, kDownRetry, kLongestDownRetry);
  state.down_until = now + state.down_for;
}

RemoteAllocator::Candidates RemoteAllocator::FindCandidates(std::optional<ServerId> near,
                                                            const Wanted& wanted,
                                                            Clock::time_point now) {
  const std::vector<const ServerInfo*> servers = servers_.All();
  const std::lock_guard lock(mutex_);
  Candidates candidates;
  for (const ServerInfo* server : servers) {
    const PerServer::Refused& refused = state_[server->id].refused[wanted.kind];
    const bool is_full = refused.until > now && wanted.bytes >= refused.bytes;
    if (is_full && IsConfirmed(server->id)) continue;
    (IsDown(server->id, now) ? candidates.down : candidates.up).push_back(server->id);
  }
  placement_.Sort(candidates.up, wanted.kind, wanted.bytes, near);
  if (wanted.is_internal) {
    std::ranges::stable_partition(candidates.up, [](ServerId id) { return id == kServerOfRoot; });
  }
  return candidates;
}

std::optional<RemoteAllocator::Piece> RemoteAllocator::Cut(ServerId server, const Wanted& wanted) {
  if (!IsConfirmed(server)) return std::nullopt;
  PerServer& state = state_[server];
  const bool is_node = wanted.kind == control::ExtentKind::kNodes;
  if (const auto freed = is_node ? TakeFreedNode(server) : std::nullopt) return freed;
  const uint64_t alignment = is_node ? node_bytes_ : kBlockAlignment;
  std::vector<Extent>& extents = state.of(wanted.kind);
  const size_t oldest = extents.size() - std::min(extents.size(), kExtentsTried);
  for (size_t i = extents.size(); i-- > oldest;) {
    Extent& extent = extents[i];
    const uint64_t offset = (extent.next + alignment - 1) / alignment * alignment;
    if (offset + wanted.bytes > extent.end) continue;
    placement_.Cut(server, wanted.kind, offset + wanted.bytes - extent.next);
    extent.next = offset + wanted.bytes;
    const Piece piece{server, offset, extent.generation, StampAt(server)};
    if (extent.next == extent.end) extents.erase(extents.begin() + static_cast<ptrdiff_t>(i));
    return piece;
  }
  return std::nullopt;
}

Task<Result<RemoteAllocator::Piece>> RemoteAllocator::Allocate(Asker asker,
                                                               std::optional<ServerId> near,
                                                               Wanted wanted) {
  Result<Piece> piece = co_await TryAll(asker, near, wanted);
  if (piece || piece.error().code != Code::kExhausted) co_return piece;
  // Nodes are few, and blocks that are freed are of no use for them.
  const bool may_give_up = !keeps_unused_ || wanted.kind == control::ExtentKind::kNodes;
  if (!may_give_up || !GiveUpUnused()) co_return piece;
  // What was freed here may be enough.
  co_await GiveBackReturns(asker.scheduler);
  for (int i = 0; i < kMostWaits && returns_under_way_ != 0; ++i) {
    co_await asker.scheduler.SleepFor(kReturnInterval);
  }
  co_return co_await TryAll(asker, near, wanted);
}

Task<Result<RemoteAllocator::Piece>> RemoteAllocator::TryAll(Asker asker,
                                                             std::optional<ServerId> near,
                                                             Wanted wanted) {
  std::string reasons;
  Code code = Code::kExhausted;
  const Candidates candidates = FindCandidates(near, wanted, asker.scheduler.Now());
  for (const bool is_down : {false, true}) {
    for (const ServerId server : is_down ? candidates.down : candidates.up) {
      const Result<Piece> piece = co_await AllocateOn(asker, server, wanted, is_down);
      if (piece) co_return piece;
      const Error& error = piece.error();
      reasons += "; " + NameOf(server) + ": " + error.message;
      if (error.code == Code::kExhausted) continue;
      code = error.code;
      // A server that has ended the lease is reachable. It grants memory once this session has
      // registered.
      if (code != Code::kFenced) Lost(server, asker.scheduler.Now());
      if (!asker.lost) asker.lost = server;
    }
  }
  // A full server may have just filled our extents: it granted another coroutine's request and
  // refused this one's.
  for (const ServerInfo* server : servers_.All()) {
    const std::lock_guard lock(mutex_);
    const std::optional<Piece> piece = Cut(server->id, wanted);
    if (piece) co_return *piece;
  }
  // If a server was lost, the store may have enough memory already.
  if (code == Code::kExhausted) events_.OnShortage();
  const std::string remedy =
      code == Code::kExhausted ? fmt::format(": {}", kFullRemedy) : std::string();
  co_return MakeError(
      code, fmt::format("no remote memory for {} bytes{}{}", wanted.bytes, remedy, reasons));
}

Task<Result<RemoteAllocator::Piece>> RemoteAllocator::AllocateOn(Asker asker, ServerId server,
                                                                 Wanted wanted,
                                                                 bool although_down) {
  Scheduler& scheduler = asker.scheduler;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      const std::optional<Piece> piece = Cut(server, wanted);
      if (piece) co_return *piece;
      if (!although_down && IsDown(server, scheduler.Now())) {
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

std::vector<bool> RemoteAllocator::AreOurs(std::span<const BlockPtr> blocks) {
  std::vector<bool> are_ours;
  are_ours.reserve(blocks.size());
  const std::lock_guard lock(mutex_);
  for (const BlockPtr block : blocks) are_ours.push_back(IsOurs(block.server(), block.offset()));
  return are_ours;
}

uint64_t RemoteAllocator::KeptBytes() {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [size, freed] : freed_blocks_) bytes += uint64_t{size.first} * freed.all.size();
  for (const auto& [server, state] : state_) {
    bytes += uint64_t{node_bytes_} * state.freed_nodes.size();
    for (const std::vector<Extent>* extents : {&state.nodes, &state.blocks}) {
      for (const Extent& extent : *extents) bytes += extent.end - extent.next;
    }
  }
  return bytes;
}

void RemoteAllocator::LeaveUnused() {
  for (auto& [size, freed] : freed_blocks_) {
    const auto [bytes, server] = size;
    for (const FreedBlock& block : freed.all) {
      ReturnFreed(server, {block.pointer.offset(), bytes, block.pointer.generation(),
                           control::Past::kUsed});
    }
    freed.all.clear();
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

// Skips memory on servers that this session cannot reach, even if other sessions can.
template <typename Pointer, typename Allocate>
Task<Result<Allocated<Pointer>>> SessionAllocator::AllocateInReach(Op& op, Allocate allocate) {
  std::bitset<Servers::kMaxServers> out_of_reach;
  for (;;) {
    Loss loss = links_.LossOfPresent(ServerId{0});
    std::optional<ServerId> lost;
    Result<Allocated<Pointer>> allocated = co_await allocate(lost);
    if (lost) {
      loss.server = *lost;
      NotePassedOver(op, loss, allocated.has_value());
    }
    if (!allocated) co_return allocated.error();
    const ServerId server = allocated.value().pointer().server();
    const Error* why = links_.WhyDown(server);
    if (why == nullptr) co_return std::move(allocated.value());
    if (out_of_reach[ToInteger(server)]) co_return *why;
    out_of_reach.set(ToInteger(server));
    allocator_.Lost(server, links_.scheduler().Now());
  }
}

Task<Result<Allocated<RemotePtr>>> SessionAllocator::AllocateNode(Op& op, ServerId near,
                                                                  NodeKind kind) {
  return AllocateInReach<RemotePtr>(op, [this, &op, near, kind](std::optional<ServerId>& lost) {
    return allocator_.AllocateNode({links_.scheduler(), op.wire, lost}, near, kind);
  });
}

Task<Result<Allocated<BlockPtr>>> SessionAllocator::AllocateBlock(Op& op,
                                                                  std::optional<ServerId> near,
                                                                  uint32_t length) {
  return AllocateInReach<BlockPtr>(op, [this, &op, near, length](std::optional<ServerId>& lost) {
    return allocator_.AllocateBlock({links_.scheduler(), op.wire, lost}, near, length);
  });
}

void SessionAllocator::TakeBlocks(std::optional<ServerId> near,
                                  std::span<RemoteAllocator::BlockWish> wishes) {
  allocator_.TakeBlocks(near, links_.scheduler().Now(), wishes);
  for (RemoteAllocator::BlockWish& wish : wishes) {
    // It is given back.
    if (wish.memory && links_.WhyDown(wish.memory.pointer().server()) != nullptr) wish.memory = {};
  }
}

Task<bool> SessionAllocator::AwaitMemory(const Error& error) {
  using Refusal = RemoteAllocator::Refusal;
  if (error.code != Code::kExhausted) co_return false;
  Scheduler& scheduler = links_.scheduler();
  const Refusal refusal = allocator_.JudgeRefusal(scheduler.Now());
  if (refusal == Refusal::kFinal) co_return false;
  if (refusal == Refusal::kAskForOthers) {
    const bool has_others = co_await HasOthers();
    if (!has_others) {
      allocator_.EndWait();
      co_return false;
    }
  }
  co_await scheduler.SleepFor(kRetryInterval);
  co_return true;
}

// Whether other compute servers are registered with some memory server: they may keep memory there.
Task<bool> SessionAllocator::HasOthers() {
  Endpoint& endpoint = links_.scheduler().endpoint();
  for (const ServerInfo* server : links_.servers().All()) {
    const Result<control::StatReply> stat =
        co_await CallControl<control::StatReply>(endpoint, server->id, control::StatRequest{});
    if (stat && stat.value().compute_servers > 1) co_return true;
  }
  co_return false;
}

void SessionAllocator::FreeBlocks(const Op& op, std::span<const BlockRef> blocks) {
  if (blocks.empty()) return;
  if (allocator_.FreeBlocks(blocks, links_.scheduler().Now(), op.began.leases)) StartGivingBack();
}

void SessionAllocator::FreeNode(const Op& op, RemotePtr node) {
  if (allocator_.FreeNode(node, op.began.leases)) StartGivingBack();
}

// One coroutine at a time: requests must not pile up before a memory server that does not answer.
void SessionAllocator::StartGivingBack() {
  if (is_giving_back_) return;
  is_giving_back_ = true;
  links_.scheduler().Spawn(GiveBackReturns());
}

Task<void> SessionAllocator::GiveBackReturns() {
  do {
    co_await allocator_.GiveBackReturns(links_.scheduler());
  } while (allocator_.AreReturnsDue(links_.scheduler().endpoint()));
  is_giving_back_ = false;
}

Status SessionAllocator::CheckLinks(Op& op, const LinkedMemory& memory, ServerId from) const {
  if (MayLink(memory, from)) return Ok();
  op.needs_other_memory = true;
  return MakeError(Code::kFenced,
                   "a memory server has ended the lease under which memory was "
                   "allocated for this write");
}

void SessionAllocator::TendPassedOver(Op& op) {
  assert(op.passed_over);
  links_.scheduler().Spawn(ReplacePassedOver(*op.passed_over));
  op.passed_over.reset();
}

Task<void> SessionAllocator::ReplacePassedOver(Loss loss) {
  Op op;
  // A failure leaves the server out for longer.
  static_cast<void>(co_await links_.Replace(op, loss));
}

}  // namespace gossamer
