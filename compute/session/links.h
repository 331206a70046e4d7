// Links: a session's queue pairs to the memory servers, their leases, and recovery from losses.
//
// All verbs of a session are posted here and counted in their operation. When a verb fails, its
// queue pair is broken. `Replace` makes the memory server destroy it before a new one is made:
// until then late packets may still land (rule U1). A new queue pair belongs to the lease that its
// registration returned (rule L4).
//
// An operation waits for servers that are to come back with their memory, for up to `reconnect` if
// none of them does.
// Any other unreachable server is *down*, and so is that one afterwards: operations on it fail at
// once for kTryAgain, then one tries again.
//
// Thread-safety: none; one for each session.
// Cost: `Execute` adds only counters to Endpoint::Execute, and no coroutine.
#pragma once

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
#include "compute/session/servers.h"
#include "proto/lock_word.h"
#include "proto/remote_ptr.h"

namespace gossamer {

// An operation waits for a memory server that joined after the store was opened, or that is to come
// back.
struct ServerSearch : Scheduler::Sleeper {
  ServerSearch(Scheduler& own, ServerId sought, uint64_t incarnation = 0)
      : Sleeper(own), server(sought), gone(incarnation) {}

  const ServerId server;
  const uint64_t gone;  // the incarnation that does not answer any more; 0: none was known
  Status found = Ok();
};

// kGoesOn: another thread sets `found` and then wakes the search.
enum class SearchState : uint8_t { kEnded, kGoesOn };

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
    std::function<SearchState(ServerSearch&)> find_server;
    // How many leases the servers have given this compute server. Null: none.
    const std::atomic<uint64_t>* leases = nullptr;
    // How often the cache has been emptied. Null: never.
    const std::atomic<uint64_t>* flushes = nullptr;
    std::chrono::milliseconds reconnect{0};
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
  // Says that verbs on `bytes` at `pointer` will be posted soon.
  void Prefetch(RemotePtr pointer, uint64_t offset, uint32_t bytes) {
    scheduler_.endpoint().Prefetch(pointer.server(), pointer.offset() + offset, bytes);
  }
  // The error of a failed batch that wrote nothing that matters. Notes the loss in `op`.
  static Error Unreachable(Op& op, const Batch& batch);

  // co_await links.ConnectFor(pointer, bytes): makes sure that `pointer` is inside the memory of a
  // known server. A server that joined later is searched for; other coroutines run meanwhile.
  // Errors: Corruption; NodeUnreachable.
  // Cost: none but for a server that is not known.
  class Connecting {
   public:
    Connecting(Links& links, RemotePtr pointer, uint64_t bytes)
        : links_(links), pointer_(pointer), bytes_(bytes) {}
    bool await_ready() const {
      return !IsPossible() || links_.servers_.Find(pointer_.server()) != nullptr;
    }
    bool await_suspend(std::coroutine_handle<> coroutine);
    Status await_resume() const;

   private:
    bool IsPossible() const { return ToInteger(pointer_.server()) < Servers::kMaxServers; }

    Links& links_;
    RemotePtr pointer_;
    uint64_t bytes_;
    std::optional<ServerSearch> search_;
  };
  Connecting ConnectFor(RemotePtr pointer, uint64_t bytes) { return {*this, pointer, bytes}; }
  // Whether ConnectFor would succeed at once.
  bool Reaches(RemotePtr pointer, uint64_t bytes) const {
    if (ToInteger(pointer.server()) >= Servers::kMaxServers) return false;
    const ServerInfo* server = servers_.Find(pointer.server());
    return server != nullptr && IsInside(*server, pointer, bytes);
  }

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
  // Whether the server, which could not be reached as incarnation `gone`, is worth another try: it
  // is back, or it is to come back, and the operation has not waited for too long. Looks for it,
  // and otherwise waits a little.
  Task<bool> MayComeBack(Op& op, ServerId server, uint64_t gone);
  // Why `server` is down and not to be tried yet; null if it may be tried.
  const Error* WhyDown(ServerId server) const;
  // The error for an unreachable `server`.
  Error CannotReach(ServerId server, std::string_view why) const;

  // After `op` failed with `error` and wrote nothing: replaces the queue pair that it lost. Returns
  // whether the operation may start again. If not, `error` says why.
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
  static void Account(Op& op, const Batch& batch);
  void StartRoundTrip(Op& op) const { ++op.wire.round_trips; }
  Task<Status> ReplaceQueuePair(Op& op, ServerId server);
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
