// RemoteAllocator: carves a compute server's nodes and value blocks from remote memory.
//
// Memory servers grant extents by RPC. Nodes and blocks are carved from them here, so that most
// allocations cost no round trip. A freed block waits `kGrace` before its memory is used again,
// under a new generation. A reader that still has the old pointer rejects the new content, even
// without the grace.
//
// An extent belongs to the lease under which it was granted. A new lease makes the allocator forget
// everything granted under the old one, used or not (rule U4): a sweep reclaims it. It reuses a
// freed block only if this compute server carved it under its present lease. Any other freed block
// goes back to its memory server (PROTOCOL.md, "Value blocks"). When the store is closed, all freed
// and unused memory goes back.
//
// After a new lease with one server, unused memory of another server is not used until that server
// confirms that its own lease is still in force: 1 RT.
//
// An unreachable server is left out for a while, longer each time, unless no other server has
// memory.
//
// Thread-safety: the sessions of a store share it, each through a SessionAllocator (below). A mutex
// is held for pointer arithmetic only.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/fabric/scheduler.h"
#include "common/fill_alarm.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/allocation/allocated.h"
#include "compute/allocation/placement.h"
#include "compute/allocation/returned_memory.h"
#include "compute/session/links.h"
#include "compute/session/op.h"
#include "compute/session/registration.h"
#include "compute/session/servers.h"
#include "compute/session/store_events.h"
#include "gossamer/counters.h"
#include "proto/control.h"
#include "proto/value_block.h"

namespace gossamer {

// Internal nodes are few, and all paths need them. They are placed on server 0, whose loss is the
// loss of the store anyway, so that the death of another server does not lose them.
enum class NodeKind : uint8_t { kLeaf, kInternal };

class RemoteAllocator {
 public:
  using Clock = Scheduler::Clock;
  static constexpr std::chrono::milliseconds kGrace{5};
  static constexpr std::chrono::seconds kBetweenWaits{30};

  // `patience`: see JudgeRefusal. `keeps_unused`: a block that all servers refuse does
  // not have GiveUpUnused called first, and its allocation fails at once.
  RemoteAllocator(const Servers& servers, StoreEvents& events, uint32_t node_bytes, uint64_t seed,
                  std::chrono::milliseconds patience = {}, bool keeps_unused = false)
      : servers_(servers),
        events_(events),
        node_bytes_(node_bytes),
        placement_(seed, node_bytes),
        patience_(patience),
        keeps_unused_(keeps_unused) {}

  // The operation that wants memory.
  struct Asker {
    Scheduler& scheduler;
    WireCounts& wire;  // counts control messages
    // Set to a server whose queue pair or lease failed, even if another one served.
    std::optional<ServerId>& lost;
  };
  // Allocates a leaf on `near`'s server, unless `Placement` prefers another, or that one is full or
  // unreachable. Allocates an internal node on server 0 unless that has no memory.
  // Errors: Exhausted if all servers are full; NodeUnreachable or Fenced if one was lost that is
  // not.
  // Cost: 0 RT; 1 RT for each server asked for more memory or about its lease.
  Task<Result<Allocated<RemotePtr>>> AllocateNode(Asker asker, ServerId near, NodeKind kind);
  // The same for a block that holds a value of `length` bytes. Without `near`: anywhere.
  Task<Result<Allocated<BlockPtr>>> AllocateBlock(Asker asker, std::optional<ServerId> near,
                                                  uint32_t length);
  struct BlockWish {
    uint32_t length;
    Allocated<BlockPtr> memory{};
  };
  // Allocates the blocks of several values, near `near` like a leaf, as far as no server has to be
  // asked for that. Cost: 0 RT.
  void TakeBlocks(std::optional<ServerId> near, Clock::time_point now, std::span<BlockWish> wishes);
  // Takes back memory that was never reachable and has no WRITE in flight. `bytes`: as allocated.
  void GiveBack(RemotePtr node, uint32_t bytes, const AllocationStamp& stamp);
  void GiveBack(BlockPtr block, uint32_t bytes, const AllocationStamp& stamp);
  // Takes back blocks that no entry refers to any more. Returns whether enough memory waits to be
  // given back that a call of `GiveBackReturns` is due. The operation that removed them `began`
  // when leases() was that. A block is left to a sweeper if its memory server has given a lease
  // since (rule R9), or none: it may be another's by now.
  bool FreeBlocks(std::span<const BlockRef> blocks, Clock::time_point now, uint64_t began);
  // The same of a node that nothing leads to any more.
  bool FreeNode(RemotePtr node, uint64_t began);
  // Gives back to the memory servers what FreeBlocks left for them. Keeps what is for a server to
  // which the endpoint has no working queue pair. What is refused, or gets no answer, is left to a
  // sweeper.
  // Cost: 1 RT for each few blocks.
  Task<void> GiveBackReturns(Scheduler& scheduler);
  // The same for one server. `reconnects`: where the queue pair may have been lost long ago.
  Task<void> GiveBackTo(Scheduler& scheduler, ServerId server, bool reconnects = false);

  // Whether as much waits to be given back to some server as makes FreeBlocks return true. Only
  // servers that the endpoint can reach.
  bool AreReturnsDue(const Endpoint& endpoint);
  bool is_giving_back() const { return returns_under_way_ != 0; }
  // Whether a call of GiveBackReturns has kept something for the server, and none has sent it
  // since.
  bool HasOverdueReturns(ServerId server);
  // The same, or something is on its way to the server.
  bool HasReturnsUnderWay(ServerId server);
  // A queue pair that carried a request to take memory back, whose answer is lost: the server may
  // still handle it until the queue pair is destroyed, or the lease has ended. The queue pair may
  // work: then only the answer is late. nullopt: there is none.
  std::optional<uint64_t> UnknownReturn(ServerId server) const;
  // The server has destroyed the queue pair.
  void Destroyed(ServerId server, uint64_t carrier);
  // What an operation does that all servers refused memory. Others give back what they do not use
  // within `patience`. As long as some memory comes back in that time, it waits on.
  enum class Refusal : uint8_t {
    kFinal,  // nobody gave anything back lately
    // As kWait, once in kBetweenWaits: if there are no other compute servers, call EndWait.
    kAskForOthers,
    kWait,  // until they may have given something back
  };
  Refusal JudgeRefusal(Clock::time_point now);
  void EndWait();

  // Leaves all memory to GiveBackReturns that is freed or unused: others are short of memory, or of
  // another kind. Freed blocks do not wait for their grace: late readers notice the change. Returns
  // whether memory is, or is to be, given back.
  bool GiveUpUnused();
  // Whether memory of each of the blocks comes back to this compute server once it is freed.
  std::vector<bool> AreOurs(std::span<const BlockPtr> blocks);
  // What it has for later allocations: unused parts of extents, freed nodes and freed blocks.
  // Cost: one step for each size of freed blocks and for each extent, under the mutex.
  uint64_t KeptBytes();
  // Gives up the memory that the renewal has offered, which others have given back: it is theirs as
  // well from then on. Best effort: what is refused, or of unknown outcome, is offered again if it
  // still waits.
  // Returns whether the server has freed any.
  // Cost: 1 RT.
  Task<bool> GiveUp(Scheduler& scheduler, ServerId server, control::RenewReply offer);

  // Whether a batch may be posted that makes `memory` reachable from a node on server `from` (rule
  // U4). True if the lease with `from` existed when the servers that hold `memory` last confirmed
  // their leases, and none of those leases was replaced since. Call it in the step that posts,
  // without a co_await in between. Lock-free.
  bool MayLink(const LinkedMemory& memory, ServerId from) const;

  // Call after registering with a reachable `server`: at open, for each session that registers, and
  // from the lease keeper. A new lease makes all memory of the server's earlier leases forgotten.
  // Returns what leases() was once that lease had begun; 0 if it has ended, and a later one is
  // known.
  uint64_t Registered(ServerId server, const Registration& registration);
  // What this compute server takes for its own on the server, in order: each piece's offset and
  // end, and the lease. For
  // tests: the server knows of it (rule M1).
  struct Granted {
    std::optional<Lease> lease;
    std::map<uint64_t, uint64_t> ends;
  };
  Granted GrantedOn(ServerId server);

  // How many leases the memory servers have given this compute server.
  const std::atomic<uint64_t>& leases() const { return registrations_; }
  // `listener(leases)` is called, under the mutex, for each new lease, before leases() has that
  // value.
  void ListenToNewLeases(std::function<void(uint64_t)> listener) {
    on_new_lease_ = std::move(listener);
  }
  // Call when `server` cannot be reached.
  void Lost(ServerId server, Clock::time_point now);

  // Starts to give unused and freed memory back to all reachable servers in parallel, best effort.
  // Replaces a lost queue pair once. Done when no task of `scheduler` runs any more.
  Task<void> ReleaseAll(Scheduler& scheduler);
  // Some memory is neither in the tree nor will this compute server give it back: a sweeper has to.
  // Thread-safe.
  void LeaveBehind() { has_left_memory_ = true; }
  // Whether all memory of the server's has been given back that is not in the tree (rule G3).
  // Requires (unchecked): ReleaseAll is done.
  bool HasReleasedAll(ServerId server);

 private:
  struct Extent {
    uint64_t next = 0;
    uint64_t end = 0;
    uint8_t generation = 0;
  };
  struct PerServer {
    std::optional<Lease> lease;  // nullopt: not known yet
    uint64_t confirmed = 0;      // registrations_ before the request that last confirmed it
    std::map<uint64_t, uint64_t> granted;  // under this lease: each extent's end, by offset
    std::vector<Extent> nodes;             // newest last
    // With the generation of the next use. First come, first used: generations are used up evenly.
    std::deque<RemotePtr> freed_nodes;
    std::vector<Extent> blocks;  // newest last; older ones may have rests too small for some blocks
    // An unreachable server is left out until then; `down_for` is the duration of that pause.
    Clock::time_point down_until{};
    std::chrono::milliseconds down_for{};

    std::vector<Extent>& of(control::ExtentKind kind) {
      return kind == control::ExtentKind::kNodes ? nodes : blocks;
    }
    // The server refused a request of this kind and size: ask for no such size or more until then.
    struct Refused {
      Clock::time_point until{};
      uint64_t bytes = 0;
    };
    std::map<control::ExtentKind, Refused> refused;
  };
  // A server that one coroutine asks for more memory. Others wait for the result, but not beyond
  // `until`: the session that asks may not be driven.
  struct RefillUnderWay {
    Clock::time_point until{};
    std::vector<Scheduler::Sleeper*> waiters;
  };
  struct FreedBlock {
    BlockPtr pointer;
    Clock::time_point reusable_at;
  };
  // Of one size, on one server, in the order freed.
  struct FreedBlocks {
    // The first one, for its next use, if its grace has passed.
    std::optional<BlockPtr> Take(Clock::time_point now) {
      if (all.empty() || all.front().reusable_at > now) return std::nullopt;
      const BlockPtr taken = all.front().pointer.NextGeneration();
      all.pop_front();
      return taken;
    }

    std::deque<FreedBlock> all;
  };
  struct Wanted {
    control::ExtentKind kind;
    uint64_t bytes;
    bool is_internal = false;  // a node that prefers server 0
  };
  struct Piece {
    ServerId server{0};
    uint64_t offset = 0;
    uint8_t generation = 0;
    AllocationStamp stamp;
  };

  // The servers to try, best first, without full ones. Those in `down` are tried last.
  struct Candidates {
    std::vector<ServerId> up;
    std::vector<ServerId> down;
  };
  Candidates FindCandidates(std::optional<ServerId> near, const Wanted& wanted,
                            Clock::time_point now);
  // The following need mutex_.
  AllocationStamp StampAt(ServerId server) { return {server, state_[server].confirmed}; }
  // Whether memory granted there may be used: no lease with any server is newer than its
  // confirmation.
  bool IsConfirmed(ServerId server) { return state_[server].confirmed == registrations_; }
  bool IsDown(ServerId server, Clock::time_point now) { return state_[server].down_until > now; }
  bool IsOurs(ServerId server, uint64_t offset);
  bool IsOfPresentLease(const AllocationStamp& stamp) const;
  void Forget(ServerId server, const Lease& lease);
  void ForgetOlder(ServerId server, const Lease& lease);
  // From `near`, or else from any server. With `now` at its maximum, also within its grace.
  std::optional<BlockPtr> TakeFreed(uint32_t bytes, std::optional<ServerId> near,
                                    Clock::time_point now);
  // Cuts a piece from the extents granted on `server`.
  std::optional<Piece> Cut(ServerId server, const Wanted& wanted);

  Task<Result<Piece>> Allocate(Asker asker, std::optional<ServerId> near, Wanted wanted);
  // The same with what all servers have now.
  Task<Result<Piece>> TryAll(Asker asker, std::optional<ServerId> near, Wanted wanted);

  // -- what servers are asked for, and given back

  Task<Result<Piece>> AllocateOn(Asker asker, ServerId server, Wanted wanted, bool although_down);
  // One coroutine at a time asks a server: many run out together, and each extent is large.
  // Returns: whether the caller is the one. `EndRefill` must follow.
  bool StartRefill(ServerId server, Clock::time_point now);
  void EndRefill(ServerId server);
  // Waits for the end of a refill under way.
  Task<void> AwaitRefill(Scheduler& scheduler, ServerId server);
  // Asks the server to confirm its lease if granted memory needs that, or else for more memory.
  Task<Status> ConfirmOrRefill(Asker asker, ServerId server, Wanted wanted);
  // The following need mutex_.
  bool MayFree(ServerId server, uint64_t began) {
    return state_[server].lease && since_[ToInteger(server)] <= began;
  }
  // Adds freed memory to returns_.
  void ReturnFreed(ServerId server, const control::Range& range);
  void LeaveUnused();
  // Gives half of the freed nodes up.
  void ReturnHalf(ServerId server, std::deque<RemotePtr>& freed);
  // nullopt: none is there.
  std::optional<Piece> TakeFreedNode(ServerId server);
  // Forgets that [offset, offset + bytes) was granted.
  void Ungrant(ServerId server, uint64_t offset, uint64_t bytes);
  // `asked_at`: registrations_ just before the request.
  Task<Status> Refill(Asker asker, ServerId server, Wanted wanted, uint64_t asked_at);
  // The server has shown that `lease` was in force after `asked_at`.
  void Confirm(ServerId server, const Lease& lease, uint64_t asked_at);

  const Servers& servers_;
  StoreEvents& events_;
  const uint32_t node_bytes_;
  std::function<void(uint64_t)> on_new_lease_;
  mutable std::mutex mutex_;
  std::map<ServerId, PerServer> state_;
  std::map<ServerId, RefillUnderWay> refills_;
  Placement placement_;
  FillAlarm alarm_;
  // By size, and server.
  std::map<std::pair<uint32_t, ServerId>, FreedBlocks> freed_blocks_;
  std::map<ServerId, Returns> returns_;                      // freed here, to be given back
  std::set<std::pair<ServerId, uint64_t>> unknown_returns_;  // with their queue pairs
  const std::chrono::milliseconds patience_;
  const bool keeps_unused_;
  Clock::time_point waits_until_;  // for others to give memory back
  Clock::time_point waits_again_from_;
  std::atomic<int> returns_under_way_ = 0;  // calls of GiveBackReturns
  std::atomic<bool> has_left_memory_ = false;
  // How many new leases all servers together gave. since_: that count after each server's present
  // lease.
  std::atomic<uint64_t> registrations_ = 0;
  std::array<std::atomic<uint64_t>, Servers::kMaxServers> since_{};
};

template <typename Pointer>
void Allocated<Pointer>::Piece::operator()(RemoteAllocator* allocator) const {
  is_posted ? allocator->LeaveBehind() : allocator->GiveBack(pointer, bytes, stamp);
}

// SessionAllocator: allocates a session's nodes and blocks on servers that this session can reach.
//
// Thread-safety: none; one for each session.
class SessionAllocator {
 public:
  SessionAllocator(Links& links, RemoteAllocator& allocator)
      : links_(links), allocator_(allocator) {}

  // As in RemoteAllocator. Notes a lost server in `op`.
  Task<Result<Allocated<RemotePtr>>> AllocateNode(Op& op, ServerId near, NodeKind kind);
  Task<Result<Allocated<BlockPtr>>> AllocateBlock(Op& op, std::optional<ServerId> near,
                                                  uint32_t length);
  void TakeBlocks(std::optional<ServerId> near, std::span<RemoteAllocator::BlockWish> wishes);
  // Whether an operation that ended with `error` is to be tried again, because other compute
  // servers may have given memory back by then. Waits a little before that. Requires (unchecked):
  // the operation holds no lock.
  Task<bool> AwaitMemory(const Error& error);
  // Gives memory back to memory servers in the background where that is due.
  // As long as that is under way, the session must be polled: epochs wait for it.
  void FreeBlocks(const Op& op, std::span<const BlockRef> blocks);
  void FreeNode(const Op& op, RemotePtr node);
  bool is_giving_back() const { return is_giving_back_; }
  // As in RemoteAllocator.
  void LeaveBehind() const { allocator_.LeaveBehind(); }
  bool MayLink(const LinkedMemory& memory, ServerId from) const {
    return allocator_.MayLink(memory, from);
  }
  // Returns Fenced, noted in `op`, unless MayLink(memory, from).
  Status CheckLinks(Op& op, const LinkedMemory& memory, ServerId from) const;
  // Replaces, in the background, the queue pair to the server that `op` has passed over. Requires:
  // there is one; (unchecked) `op` holds no lock.
  void TendPassedOver(Op& op);

 private:
  template <typename Pointer, typename Allocate>
  Task<Result<Allocated<Pointer>>> AllocateInReach(Op& op, Allocate allocate);
  Task<void> ReplacePassedOver(Loss loss);
  Task<bool> HasOthers();
  void StartGivingBack();
  Task<void> GiveBackReturns();

  Links& links_;
  RemoteAllocator& allocator_;
  bool is_giving_back_ = false;
};

}  // namespace gossamer
