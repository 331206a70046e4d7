// Links: a session's queue pairs to the memory servers, their leases, and recovery from losses.
//
// All verbs of a session are posted here and counted in their operation. When a verb fails, its
// queue pair is broken. `Replace` makes the memory server destroy it before a new one is made:
// until then late packets may still land (rule U1). A new queue pair belongs to the lease that its
// registration returned (rule L4).
//
// A server that is to come back with its memory is waited for until the operation is late: for
// `reconnect` since its first loss. Any other unreachable server is *down*, and so is that one once
// it has been waited for that long: operations on it fail at once for kTryAgain, then one tries
// again.
//
// A server that joined after the store was opened is unknown at first. An operation that meets a
// pointer to it has no lease with it: it starts again once this session has one (rule R9), as with
// a lease that has ended.
//
// Thread-safety: none; one for each session.
// Cost: `Execute` adds only counters to Endpoint::Execute, and no coroutine.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "common/fabric/event.h"
#include "common/fabric/scheduler.h"
#include "common/status.h"
#include "common/task.h"
#include "compute/session/op.h"
#include "compute/session/pauses.h"
#include "compute/session/registration.h"
#include "compute/session/return_waits.h"
#include "compute/session/servers.h"
#include "proto/lock_word.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// kGoesOn: another thread sets `found` and then wakes the search.
enum class SearchState : uint8_t { kEnded, kGoesOn };

struct ServerSearch;
using FindServer = std::function<SearchState(ServerSearch&)>;

// co_await it: looks for a memory server that joined after the store was opened, or that is to come
// back. Returns whether it was found.
struct ServerSearch : Scheduler::Sleeper {
  // `with` outlives the search.
  ServerSearch(Scheduler& own, ServerId sought, uint64_t incarnation, const FindServer& with)
      : Sleeper(own), server(sought), gone(incarnation), find(with) {}

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> waiter) {
    coroutine = waiter;
    return find(*this) == SearchState::kGoesOn;
  }
  Status await_resume() const { return found; }

  const ServerId server;
  const uint64_t gone;  // the incarnation that does not answer any more; 0: none was known
  Status found = Ok();
  const FindServer& find;
};

class Links {
 public:
  using Clock = Scheduler::Clock;

  // Callbacks to the owner of a session.
  struct Hooks {
    // This session has registered with a server. Returns how many leases the servers had given when
    // this one began.
    std::function<uint64_t(ServerId, const Registration&)> registered;
    // A server cannot be reached.
    std::function<void(ServerId, Clock::time_point)> lost;
    // Makes a server known that joined after the store was opened, or has come back.
    FindServer find_server;
    // How many leases the servers have given this compute server. Null: none.
    const std::atomic<uint64_t>* leases = nullptr;
    // How often the cache has been emptied. Null: never.
    const std::atomic<uint64_t>* flushes = nullptr;
    std::chrono::milliseconds reconnect{0};
    // Of this compute server. Null: none is kept.
    ReturnWaits* waits = nullptr;
  };

  Links(Scheduler& scheduler, Pauses& pauses, const Servers& servers, Hooks hooks);

  Scheduler& scheduler() { return scheduler_; }
  const Servers& servers() const { return servers_; }

  // An operation that looks up its first pointer now.
  Op Begin() const {
    Op op;
    op.began = Now();
    return op;
  }
  Moment Now() const {
    Moment now;
    // In this order: the cache is emptied before a new lease counts.
    if (hooks_.flushes != nullptr) now.flushes = hooks_.flushes->load(std::memory_order_acquire);
    if (hooks_.leases != nullptr) now.leases = hooks_.leases->load(std::memory_order_acquire);
    return now;
  }

  // -- verbs

  // co_await what Execute and ExecuteAll return. All verbs stay kPending, and none is posted, if
  // some go by pointers of an earlier lease (rule R9).
  template <typename Posted>
  struct Posting {
    Posted posted;
    bool may_post;

    bool await_ready() const noexcept { return !may_post; }
    auto await_suspend(std::coroutine_handle<> waiter) { return posted.await_suspend(waiter); }
    void await_resume() const noexcept {}
  };
  // co_await links.Execute(op, batch): 1 RT, counted.
  auto Execute(Op& op, Batch& batch) {
    const bool may_post = MayUse(op, batch.server()) || MayPost(op, batch);
    if (may_post) {
      Account(op, batch);
      StartRoundTrip(op);
      batch.posted_at = made_;
    }
    return Posting{scheduler_.endpoint().Execute(batch), may_post};
  }
  // Executes several batches, some of which may be null, in 1 RT.
  auto ExecuteAll(Op& op, std::span<Batch* const> batches) {
    bool may_post = true;
    for (Batch* batch : batches) {
      may_post =
          may_post && (batch == nullptr || MayUse(op, batch->server()) || MayPost(op, *batch));
    }
    if (may_post) {
      for (Batch* batch : batches) {
        if (batch == nullptr) continue;
        Account(op, *batch);
        batch->posted_at = made_;
      }
      StartRoundTrip(op);
    } else {
      SetPending(batches);
    }
    return Posting{scheduler_.endpoint().ExecuteAll(batches), may_post};
  }
  // Whether the operation may use its pointers to memory of `server` (rule R9).
  bool MayUse(const Op& op, ServerId server) const {
    return links_[ToInteger(server)].since <= op.began.leases;
  }
  // The error if not. The operation starts again.
  Error OfThePast(Op& op, ServerId server) const;
  // Whether `pointer` is inside the memory of a known server.
  bool Reaches(RemotePtr pointer, uint64_t bytes) const {
    if (ToInteger(pointer.server()) >= Servers::kMaxServers) return false;
    const ServerInfo* server = servers_.Find(pointer.server());
    return server != nullptr && IsInside(*server, pointer, bytes);
  }
  // Likewise. Errors: Corruption; NodeUnreachable if the server is not known yet. The operation
  // starts again.
  Status CheckReaches(Op& op, RemotePtr pointer, uint64_t bytes) const {
    if (Reaches(pointer, bytes)) return Ok();
    return WhyOutOfReach(op, pointer);
  }
  // Says that verbs on `bytes` at `pointer` will be posted soon.
  void Prefetch(RemotePtr pointer, uint64_t offset, uint32_t bytes) {
    scheduler_.endpoint().Prefetch(pointer.server(), pointer.offset() + offset, bytes);
  }
  // The error of a failed batch that wrote nothing that matters. Notes the loss in `op`.
  static Error Unreachable(Op& op, const Batch& batch);

  // -- losses

  // The lease of the present queue pair. Incarnation 0: not registered yet.
  const Lease& LeaseWith(ServerId server) const { return links_[ToInteger(server)].lease; }
  // Whether `Register` would return at once.
  bool IsRegistered(ServerId server) const {
    const Link& link = links_[ToInteger(server)];
    return link.lease.incarnation != 0 && !link.is_busy && !link.is_down;
  }
  // Registers with `server` unless LeaseWith(server) is known.
  Task<Status> Register(Op& op, ServerId server);
  // The queue pair on which `batch` failed, if it was posted; the present one of `server`.
  static Loss LossOf(const Batch& batch) { return {batch.server(), batch.posted_at}; }
  Loss LossOfPresent(ServerId server) const { return {server, made_}; }
  // Makes sure that the queue pair of `loss` is destroyed and replaced. Does nothing if another
  // operation has done so since, or nothing was posted.
  // Errors: NodeUnreachable if that fails or `op` has lost too many.
  Task<Status> Replace(Op& op, Loss loss);
  // The incarnation that a queue pair is made to now; 0: the server is not known.
  uint64_t IncarnationOf(ServerId server) const {
    const ServerInfo* const known = servers_.Find(server);
    return known == nullptr ? 0 : known->incarnation;
  }
  // Looks for a server that is not known, or could not be reached as incarnation `gone` (0: not
  // known). If it is not found, but is to come back, waits a little. Success: it is worth another
  // try.
  // Errors: NodeUnreachable if it does not come back, or the operation IsLate.
  Task<Status> AwaitReturn(Op& op, ServerId server, uint64_t gone);
  // For how long this compute server has waited for servers that come back.
  Clock::duration TimeOfWaits() const {
    return hooks_.waits == nullptr ? Clock::duration{} : hooks_.waits->Total(scheduler_.Now());
  }
  // How much of the time since TimeOfWaits was `before` went into such waits: `reconnect` at most,
  // as an operation waits no longer.
  Clock::duration WaitedSince(Clock::duration before) const {
    return std::min<Clock::duration>(TimeOfWaits() - before, hooks_.reconnect);
  }
  // Why `server` is down and not to be tried yet; null if it may be tried.
  const Error* WhyDown(ServerId server) const;
  // The error for an unreachable `server`.
  Error CannotReach(ServerId server, std::string_view why) const;

  // Counts a loss of `op`. Returns whether it has lost too often, and for too long, to start again.
  bool HasGivenUp(Op& op);
  // After `op` failed with `error` and wrote nothing: replaces the queue pair that it lost. Returns
  // whether the operation may start again. If not, `error` says why.
  //
  // An operation starts again up to kMaxRetries times. Servers that are killed again and again, and
  // come back, use these up: where servers come back, it goes on until it IsLate, with pauses.
  Task<bool> RecoverFrom(Op& op, Error& error);
  // Runs `read`, which writes nothing, and restarts it as often as losses allow. Returns its
  // result.
  template <typename Read>
  auto Retry(Op& op, Read read) -> decltype(read());

  // A buffer of `bytes` from the endpoint.
  // Errors: NoResources if there is none.
  Result<BufferLease> Buffer(size_t bytes) {
    return scheduler_.endpoint().buffers().Allocate(bytes);
  }

 private:
  struct Link {
    Lease lease;                // of the present queue pair
    uint64_t since = kNever;    // how many leases the servers had given when that began
    uint64_t made_at = kFirst;  // made_ when the present queue pair was made
    bool is_busy = false;       // being replaced, or registered
    Event became_idle;
    bool is_down = false;  // could not be replaced
    Clock::time_point failed_at{};
    Error why{Code::kNodeUnreachable, {}};  // why it is down
  };

  static constexpr uint64_t kNever = ~uint64_t{0};
  static constexpr uint64_t kFirst = 1;  // see Loss

  // Whether the batch uses no pointers, though MayUse is false. If not, marks its verbs as pending,
  // and the operation.
  static bool MayPost(Op& op, Batch& batch);
  static void SetPending(std::span<Batch* const> batches);
  void Learn(Link& link, ServerId server, const Registration& registration);
  static bool IsInside(const ServerInfo& server, RemotePtr pointer, uint64_t bytes) {
    return pointer.offset() >= kFirstLeafOffset && pointer.offset() + bytes <= server.region_bytes;
  }
  Error WhyOutOfReach(Op& op, RemotePtr pointer) const;
  static void Account(Op& op, const Batch& batch);
  void StartRoundTrip(Op& op) const { ++op.wire.round_trips; }
  Task<Status> ReplaceQueuePair(Op& op, ServerId server);
  // The error of a replacement that ended as `lost` and behind it, in AwaitReturn, as `searched`.
  Error WhyInVain(ServerId server, const Error& lost, const Error& searched) const;
  // Whether `reconnect` has passed since the first call, which is at the operation's first loss.
  bool IsLate(Op& op) const;
  void SetIdle(Link& link) {
    link.is_busy = false;
    link.became_idle.NotifyAll(scheduler_);
  }

  Scheduler& scheduler_;
  Pauses& pauses_;
  const Servers& servers_;
  Hooks hooks_;
  std::array<Link, Servers::kMaxServers> links_{};
  uint64_t made_ = kFirst;  // counts the queue pairs that were made as replacements
};

template <typename Read>
auto Links::Retry(Op& op, Read read) -> decltype(read()) {
  for (;;) {
    auto result = co_await read();
    if (result) co_return std::move(result);
    Error error = result.error();
    const bool again = co_await RecoverFrom(op, error);
    if (!again) co_return error;
  }
}

}  // namespace gossamer
