#include "compute/tree/remote_allocator.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "compute/tree/control_client.h"

namespace gossamer {
namespace {

// A server found full is asked again after this long: others may have given memory back.
constexpr std::chrono::milliseconds kFullRetry{500};
// "Clearly fuller": so many allocations, and this fraction, ahead of the server least used.
constexpr uint64_t kSlackNodes = 8;
constexpr uint64_t kSlackFraction = 8;
// How often who waits for another's extent looks, and when it asks by itself (the other may not be driven).
constexpr std::chrono::microseconds kRefillWait{5};
constexpr std::chrono::milliseconds kRefillBound{200};
// Of the extents at hand, so many are tried before a new one is asked for.
constexpr size_t kExtentsTried = 8;
// Memory goes back in multiples of this, so that it is aligned for whatever it serves next.
constexpr uint64_t kReleaseGrain = 4096;

}  // namespace

Task<Result<RemotePtr>> RemoteAllocator::AllocateNode(Scheduler& scheduler, ServerId near,
                                                      WireCounts& wire,
                                                      std::optional<ServerId>& lost) {
  {
    const std::lock_guard lock(mutex_);
    if (!returned_nodes_.empty()) {
      const RemotePtr node = returned_nodes_.back();
      returned_nodes_.pop_back();
      co_return node;
    }
  }
  ServerId server{0};
  const Result<uint64_t> offset = co_await Allocate(scheduler, near, control::ExtentKind::kNodes,
                                                    node_bytes_, wire, server, lost);
  if (!offset) co_return offset.error();
  co_return RemotePtr(server, offset.value(), 0);
}

Task<Result<BlockPtr>> RemoteAllocator::AllocateBlock(Scheduler& scheduler, uint32_t length,
                                                      WireCounts& wire,
                                                      std::optional<ServerId>& lost) {
  const uint32_t bytes = BlockBytes(length);
  {
    const std::lock_guard lock(mutex_);
    std::deque<FreedBlock>& freed = freed_blocks_[bytes];
    if (!freed.empty() && freed.front().reusable_at <= scheduler.Now()) {
      const BlockPtr block = freed.front().pointer;
      freed.pop_front();
      co_return block.NextGeneration();
    }
  }
  ServerId server{0};
  const Result<uint64_t> offset = co_await Allocate(
      scheduler, std::nullopt, control::ExtentKind::kBlocks, bytes, wire, server, lost);
  if (offset) co_return BlockPtr(server, offset.value(), 0);
  // Better memory that a late reader may still look at (it will notice) than none.
  const std::lock_guard lock(mutex_);
  std::deque<FreedBlock>& freed = freed_blocks_[bytes];
  if (freed.empty()) co_return offset.error();
  const BlockPtr block = freed.front().pointer;
  freed.pop_front();
  co_return block.NextGeneration();
}

void RemoteAllocator::ReturnNode(RemotePtr node) {
  const std::lock_guard lock(mutex_);
  const std::map<uint64_t, uint64_t>& granted = state_[node.server()].granted;
  const auto behind = granted.upper_bound(node.offset());
  if (behind == granted.begin() || std::prev(behind)->second <= node.offset()) return;
  returned_nodes_.push_back(node);
}

void RemoteAllocator::Abandon(ServerId server, Lease lease) {
  const ServerInfo* info = servers_.Find(server);
  const std::lock_guard lock(mutex_);
  PerServer& state = state_[server];
  const Lease known = state.lease.value_or(info == nullptr ? Lease{} : info->lease);
  // Another session may have heard of a newer one meanwhile.
  if (lease == known || (lease.compute == known.compute && IsOlder(lease, known))) return;
  state = {};
  state.lease = lease;
  std::erase_if(returned_nodes_, [server](RemotePtr node) { return node.server() == server; });
  for (auto& [bytes, freed] : freed_blocks_) {
    std::erase_if(freed,
                  [server](const FreedBlock& block) { return block.pointer.server() == server; });
  }
}

void RemoteAllocator::FreeBlock(const BlockRef& block, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  freed_blocks_[BlockBytes(block.length)].push_back({block.ptr(), now + kGrace});
}

std::vector<ServerId> RemoteAllocator::Preference(std::optional<ServerId> near,
                                                  control::ExtentKind kind, uint64_t bytes,
                                                  Clock::time_point now) {
  const std::vector<const ServerInfo*> servers = servers_.All();
  const std::lock_guard lock(mutex_);
  std::vector<ServerId> order;
  for (const ServerInfo* server : servers) {
    const PerServer::Refused& refused = state_[server->id].refused[kind];
    if (refused.until <= now || bytes < refused.bytes) order.push_back(server->id);
  }
  std::sort(order.begin(), order.end(), [this](ServerId a, ServerId b) {
    return std::pair(state_[a].allocated_bytes, a) < std::pair(state_[b].allocated_bytes, b);
  });
  const auto at = near ? std::find(order.begin(), order.end(), *near) : order.end();
  if (at == order.end()) return order;
  const uint64_t least = state_[order.front()].allocated_bytes;
  const uint64_t here = state_[*near].allocated_bytes;
  if (here <= least + least / kSlackFraction + kSlackNodes * node_bytes_) {
    std::rotate(order.begin(), at, at + 1);
  }
  return order;
}

std::optional<uint64_t> RemoteAllocator::Cut(ServerId server, control::ExtentKind kind,
                                             uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  PerServer& state = state_[server];
  const uint64_t alignment = kind == control::ExtentKind::kNodes ? node_bytes_ : kBlockAlignment;
  std::vector<Extent>& extents = state.of(kind);
  const size_t oldest = extents.size() - std::min(extents.size(), kExtentsTried);
  for (size_t i = extents.size(); i-- > oldest;) {
    Extent& extent = extents[i];
    const uint64_t offset = (extent.next + alignment - 1) / alignment * alignment;
    if (offset + bytes > extent.end) continue;
    extent.next = offset + bytes;
    state.allocated_bytes += bytes;
    return offset;
  }
  return std::nullopt;
}

Task<Result<uint64_t>> RemoteAllocator::Allocate(Scheduler& scheduler, std::optional<ServerId> near,
                                                 control::ExtentKind kind, uint64_t bytes,
                                                 WireCounts& wire, ServerId& chosen,
                                                 std::optional<ServerId>& lost) {
  std::string refusals;
  const std::vector<ServerId> order = Preference(near, kind, bytes, scheduler.Now());
  for (const ServerId server : order) {
    chosen = server;
    // One that joined after this session began.
    if (!scheduler.endpoint().IsAttached(server)) {
      BOOST_OUTCOME_CO_TRYV(scheduler.endpoint().Attach(server));
    }
    for (;;) {
      const std::optional<uint64_t> offset = Cut(server, kind, bytes);
      if (offset) co_return *offset;
      if (!StartRefill(server, scheduler.Now())) {
        co_await scheduler.SleepFor(kRefillWait);
        continue;
      }
      const Status refilled = co_await Refill(scheduler, server, kind, bytes, wire);
      if (refilled) continue;
      if (refilled.error().code != Code::kExhausted) {
        lost = server;
        co_return refilled.error();
      }
      refusals += "; server " + std::to_string(ToInteger(server)) + ": " + refilled.error().message;
      break;
    }
  }
  // Servers that are full now may have filled our extents just before: at another coroutine's request, while this
  // one's was refused.
  for (const ServerInfo* server : servers_.All()) {
    chosen = server->id;
    const std::optional<uint64_t> offset = Cut(server->id, kind, bytes);
    if (offset) co_return *offset;
  }
  co_return MakeError(Code::kExhausted, "no remote memory for " + std::to_string(bytes) +
                                            " bytes: delete data, or start another memory server" +
                                            refusals);
}

// One at a time asks a server for more: many coroutines run out together, and each extent is large.
bool RemoteAllocator::StartRefill(ServerId server, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  PerServer& state = state_[server];
  if (now < state.refilling_until) return false;
  state.refilling_until = now + kRefillBound;
  return true;
}

Task<Status> RemoteAllocator::Refill(Scheduler& scheduler, ServerId server,
                                     control::ExtentKind kind, uint64_t bytes, WireCounts& wire) {
  control::AllocateRequest request;
  request.bytes = bytes;
  request.kind = kind;
  ++wire.sends;
  ++wire.round_trips;
  std::optional<Lease> lease;
  {
    const std::lock_guard lock(mutex_);
    lease = state_[server].lease;
  }
  const Result<control::AllocateReply> reply =
      co_await CallControl<control::AllocateReply>(scheduler.endpoint(), server, request);
  const std::lock_guard lock(mutex_);
  PerServer& state = state_[server];
  // Perhaps granted under the lease before, and abandoned with it.
  if (state.lease != lease) {
    co_return MakeError(Code::kFenced, "this compute server lost its lease with memory server " +
                                           std::to_string(ToInteger(server)) +
                                           " while it asked for memory");
  }
  state.refilling_until = {};
  if (!reply) {
    if (reply.error().code == Code::kExhausted) {
      state.refused[kind] = {scheduler.Now() + kFullRetry, bytes};
    }
    co_return reply.error();
  }
  std::vector<Extent>& extents = state.of(kind);
  const Extent fresh{reply.value().offset, reply.value().offset + reply.value().bytes};
  state.granted[fresh.next] = fresh.end;
  if (!extents.empty() && extents.back().end == fresh.next) {
    extents.back().end = fresh.end;  // The server found room right behind.
  } else {
    extents.push_back(fresh);
  }
  co_return Ok();
}

Task<void> RemoteAllocator::ReleaseAll(Scheduler& scheduler) {
  std::vector<std::pair<ServerId, Extent>> unused;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [server, state] : state_) {
      for (std::vector<Extent>* extents : {&state.nodes, &state.blocks}) {
        for (const Extent& extent : *extents) {
          const uint64_t from = (extent.next + kReleaseGrain - 1) / kReleaseGrain * kReleaseGrain;
          if (from < extent.end) unused.push_back({server, Extent{from, extent.end}});
        }
        extents->clear();
      }
    }
  }
  for (const auto& [server, extent] : unused) {
    control::ReleaseRequest request;
    request.offset = extent.next;
    request.bytes = extent.end - extent.next;
    const Result<control::ReleaseReply> reply =
        co_await CallControl<control::ReleaseReply>(scheduler.endpoint(), server, request);
    if (!reply) co_return;  // The server is gone, and its memory with it.
  }
}

}  // namespace gossamer
