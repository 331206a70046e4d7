// Links: a session's queue pairs to the memory servers, the leases that they belong to, and what is done about losses.
//
// All verbs of a session go out here, and are counted in the operation that posts them. When a verb fails, its queue
// pair is broken. `Replace` has the memory server destroy it before the next one is made: until then late packets may
// still land (rule U1). A new queue pair belongs to the lease that its registration returned (rule L4).
//
// A server that could not be reached is *down*: operations on it fail at once for kTryAgain, then one tries again.
//
// Thread-safety: none; one for each session. Cost: `Execute` adds counters, and no coroutine, to Endpoint::Execute.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

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

class Links {
 public:
  using Clock = Scheduler::Clock;

  // What the owner of a session is told.
  struct Hooks {
    // This session has registered with a server.
    std::function<void(ServerId, const Registration&)> registered;
    // A server cannot be reached.
    std::function<void(ServerId, Clock::time_point)> lost;
    // Makes a server known that joined after the store was opened. May block for up to the connection time-out.
    std::function<Status(ServerId)> learn_server;
  };

  Links(Scheduler& scheduler, Pauses& pauses, const Servers& servers, Hooks hooks);

  Scheduler& scheduler() { return scheduler_; }
  const Servers& servers() const { return servers_; }

  // -- verbs

  // co_await links.Execute(op, batch): 1 RT, counted.
  auto Execute(Op& op, Batch& batch) {
    Account(op, batch);
    StartRoundTrip(op);
    return scheduler_.endpoint().Execute(batch);
  }
  // Several batches, of which some may be null, in 1 RT.
  auto ExecuteAll(Op& op, std::span<Batch* const> batches) {
    for (const Batch* batch : batches) {
      if (batch != nullptr) Account(op, *batch);
    }
    StartRoundTrip(op);
    return scheduler_.endpoint().ExecuteAll(batches);
  }
  // Notes that a verb posted from now on would go out on the present queue pairs.
  void StartPosting(Op& op) const { op.posted_at = replaced_; }
  // The error of a batch that failed and wrote nothing that matters; the loss is noted in `op`.
  static Error Unreachable(Op& op, const Batch& batch);
  // Executes the WRITE of memory that nothing leads to yet, until it has succeeded: once the old queue pair is
  // destroyed, the first try cannot land on what the next one wrote.
  Task<Status> WriteUnseen(Op& op, ServerId server, const Verb& write);

  // Makes sure that `pointer` is inside the memory of a known server. The first pointer to a server that joined later
  // makes that server known. Errors: Corruption; NodeUnreachable.
  Status ConnectFor(RemotePtr pointer, uint64_t bytes);

  // -- losses

  // The lease of the present queue pair. Incarnation 0: not registered yet.
  const Lease& LeaseWith(ServerId server) const { return links_[ToInteger(server)].lease; }
  // Whether `Register` would return at once.
  bool IsRegistered(ServerId server) const {
    const Link& link = links_[ToInteger(server)];
    return link.lease.incarnation != 0 && !link.is_busy && !link.is_down;
  }
  // Makes sure that LeaseWith(server) is known.
  Task<Status> Register(Op& op, ServerId server);
  // Makes sure that the queue pair to `server`, on which something of `op` has failed, is destroyed and replaced.
  // Errors: NodeUnreachable if that cannot be done, or `op` has lost too many.
  Task<Status> Replace(Op& op, ServerId server);
  // Why `server` is down, and will not be tried yet; null if it may be tried.
  const Error* WhyDown(ServerId server) const;
  // `server` cannot be reached, in one wording.
  Error CannotReach(ServerId server, std::string_view why) const;

  // After `op` failed with `error` and wrote nothing: replaces the queue pair that it lost. Returns whether the operation
  // may start again; if not, `error` says why.
  Task<bool> RecoverFrom(Op& op, Error& error);
  // The result of `read`, which writes nothing, after as many new starts as losses allow.
  template <typename Read>
  auto Retry(Op& op, Read read) -> decltype(read());

  // An endpoint's buffer of `bytes`. Exhausted: there is none.
  Result<BufferLease> Buffer(size_t bytes) {
    return scheduler_.endpoint().buffers().Allocate(bytes);
  }

 private:
  struct Link {
    Lease lease;               // of the present queue pair
    uint64_t replaced_at = 0;  // replaced_ when the present queue pair was made
    bool is_busy = false;      // being replaced, or registered
    bool is_down = false;      // could not be replaced
    Clock::time_point failed_at{};
    Error why{Code::kNodeUnreachable, {}};  // is_down
  };

  static void Account(Op& op, const Batch& batch);
  void StartRoundTrip(Op& op) const {
    StartPosting(op);
    ++op.wire.round_trips;
  }
  Task<Status> ReplaceQueuePair(ServerId server);
  // Until no other coroutine replaces the queue pair, or registers over it.
  Task<void> AwaitIdle(const Link& link);

  Scheduler& scheduler_;
  Pauses& pauses_;
  const Servers& servers_;
  Hooks hooks_;
  std::array<Link, Servers::kMaxServers> links_{};
  uint64_t replaced_ = 0;  // queue pairs
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
