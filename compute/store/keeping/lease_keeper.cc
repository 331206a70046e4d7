#include "compute/store/keeping/lease_keeper.h"

#include <glog/logging.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/start_thread.h"
#include "compute/session/control_client.h"
#include "compute/session/registration.h"

namespace gossamer {
namespace {

constexpr uint32_t kRenewalsPerLease = 4;
// Poll interval of the thread while an answer is late.
constexpr std::chrono::milliseconds kPollInterval{1};
// An answer takes some microseconds. The thread polls so often before it sleeps.
constexpr int kPolls = 1000;
// Longest pause when nothing is due, because `Wake` does not wake `Keep`.
constexpr std::chrono::milliseconds kIdleInterval{100};

std::chrono::milliseconds Interval(const ServerInfo& server) {
  if (server.lease_ms == 0) return LeaseKeeper::kWithoutExpiry;
  return std::chrono::milliseconds(std::max(server.lease_ms / kRenewalsPerLease, 1U));
}

}  // namespace

Status LeaseKeeper::Start(std::unique_ptr<ComputePort> port) {
  BOOST_OUTCOME_TRY(endpoint, port->NewEndpoint());
  endpoint_ = std::move(endpoint);  // destroys a failed start's endpoint before its port
  port_ = std::move(port);
  BOOST_OUTCOME_TRY(thread, StartThread("renew leases and settle locks", [this] { Run(); }));
  thread_ = std::move(thread);
  return Ok();
}

void LeaseKeeper::Stop() {
  stopping_ = true;
  Wake();
  if (thread_.joinable()) thread_.join();
}

void LeaseKeeper::Wake() {
  {
    const std::lock_guard guard(mutex_);
    has_news_ = true;
  }
  wake_.notify_one();
}

void LeaseKeeper::Hurry() {
  hurries_ = true;
  Wake();
}

void LeaseKeeper::Run() {
  Scheduler scheduler(*endpoint_);
  int polls = 0;
  while (!stopping_ || is_asking()) {
    if (!stopping_ && scheduler.Now() >= due_) RenewDue(scheduler);
    const bool has_more = !stopping_ && TendOthers(scheduler);
    if (scheduler.RunOnce()) {
      polls = 0;
      continue;
    }
    if (is_asking() && ++polls < kPolls) continue;
    polls = 0;
    std::unique_lock lock(mutex_);
    const Clock::time_point until =
        is_asking() || has_more ? Clock::now() + kPollInterval : std::max(due_, Clock::now());
    if (wake_.wait_until(lock, until, [this] { return has_news_; })) due_ = {};
    has_news_ = false;
  }
}

Task<void> LeaseKeeper::Keep(Scheduler& scheduler) {
  while (!stopping_) {
    RenewDue(scheduler);
    const bool has_more = TendOthers(scheduler) || is_asking();
    const Clock::duration rest = has_more ? kPollInterval : due_ - scheduler.Now();
    co_await scheduler.SleepFor(std::max<Clock::duration>(rest, kPollInterval));
  }
  while (is_asking()) co_await scheduler.SleepFor(kPollInterval);
}

// What has been taken to be given back is lost unless its requests end.
bool LeaseKeeper::is_asking() const {
  return asking_ + searching_ != 0 || (epochs_ != nullptr && epochs_->is_giving_back());
}

bool LeaseKeeper::TendOthers(Scheduler& scheduler) {
  const bool has_orphans = orphans_ != nullptr && !orphans_->empty();
  if (has_orphans) orphans_->Tend();
  if (epochs_ == nullptr) return has_orphans;
  if (epochs_->Tend(scheduler)) Hurry();
  return has_orphans || epochs_->is_busy();
}

void LeaseKeeper::RenewDue(Scheduler& scheduler) {
  if (hurries_.exchange(false)) {
    for (auto& [server, kept] : kept_) kept.due = scheduler.Now();
  }
  due_ = scheduler.Now() + kIdleInterval;
  const ServerInfo* lost = nullptr;
  for (const ServerInfo* server : servers_.All()) {
    const Clock::time_point now = scheduler.Now();
    const auto [known, is_new] = kept_.try_emplace(server->id);
    Kept& kept = known->second;
    if (is_new && server->lease_ms == 0) kept.due = now + kWithoutExpiry;
    if (kept.due <= now && !kept.is_asking) {
      const bool is_another = kept.incarnation != server->incarnation;
      if (!kept.is_connected && (is_another || !scheduler.endpoint().IsAttached(server->id))) {
        // Connecting blocks: connect only to the server that has been due longest, and only when no
        // answer is outstanding.
        if (lost == nullptr || kept.due < kept_[lost->id].due) lost = server;
        continue;
      }
      kept.due = now + Interval(*server);
      scheduler.Spawn(Renew(scheduler, *server, kept));
    }
    due_ = std::min(due_, kept.due);
  }
  waits_to_connect_ = lost != nullptr && asking_ != 0;
  if (lost == nullptr) return;
  if (waits_to_connect_) {
    due_ = std::min(due_, scheduler.Now() + kPollInterval);
    return;
  }
  Connect(scheduler, *lost, kept_[lost->id]);
  due_ = scheduler.Now();
}

void LeaseKeeper::Connect(Scheduler& scheduler, const ServerInfo& server, Kept& kept) {
  Endpoint& endpoint = scheduler.endpoint();
  Status connected = Ok();
  if (port_ != nullptr) connected = port_->Connect(server.id, server.address, server.incarnation);
  const bool is_another = std::exchange(kept.incarnation, server.incarnation) != server.incarnation;
  if (connected) {
    connected = is_another ? endpoint.Reconnect(server.id) : endpoint.Attach(server.id);
  }
  kept.is_connected = connected.has_value();
  kept.is_registered = false;
  if (connected) return;
  kept.due = endpoint.Now() + Interval(server);
  Failed(server, kept, connected.error());
  LookFor(scheduler, server, kept);
}

Task<void> LeaseKeeper::Renew(Scheduler& scheduler, const ServerInfo& server, Kept& kept) {
  kept.is_asking = true;
  ++asking_;
  Status renewed = Ok();
  // An epoch waits for what that queue pair has carried.
  std::optional<uint64_t> carrier;
  if (allocator_ != nullptr) carrier = allocator_->UnknownReturn(server.id);
  if (!kept.is_connected || carrier) {
    QueuePairRequest request;
    request.server = server.id;
    request.also_destroys = carrier.value_or(0);
    co_await scheduler.endpoint().Execute(request);
    kept.is_connected = request.status.has_value();
    if (kept.is_connected && carrier) allocator_->Destroyed(server.id, *carrier);
    kept.is_registered = false;
    renewed = std::move(request.status);
  }
  if (renewed && !kept.is_registered) {
    const Result<Registration> reply = co_await RegisterOver(scheduler.endpoint(), server.id);
    if (!reply) {
      renewed = reply.error();
    } else if (allocator_ != nullptr) {
      allocator_->Registered(server.id, reply.value());
    }
  }
  // Also after a registration: only a renewal tells of epochs.
  if (renewed) renewed = co_await RenewRegistered(scheduler, server, kept);
  kept.is_asking = false;
  --asking_;
  kept.is_registered = renewed.has_value();
  if (renewed) {
    if (kept.has_failed && server.lease_ms != 0) {
      LOG(INFO) << "the lease with memory server " << ToInteger(server.id) << " at "
                << server.address << " is renewed again";
    }
    kept.has_failed = false;
    co_return;
  }
  // Reconnect at once, unless the reconnection itself failed.
  const bool is_lost = std::exchange(kept.is_connected, false);
  if (is_lost) kept.due = due_ = scheduler.Now();
  Failed(server, kept, renewed.error());
  if (!is_lost) LookFor(scheduler, server, kept);
}

void LeaseKeeper::LookFor(Scheduler& scheduler, const ServerInfo& server, Kept& kept) {
  if (!find_server_ || stopping_ || !servers_.ComesBack(server.id)) return;
  kept.is_asking = true;
  ++searching_;
  scheduler.Spawn(Search(scheduler, server, kept));
}

Task<void> LeaseKeeper::Search(Scheduler& scheduler, const ServerInfo& server, Kept& kept) {
  ServerSearch search(scheduler, server.id, server.incarnation, find_server_);
  const Status found = co_await search;
  kept.is_asking = false;
  --searching_;
  if (found) kept.due = due_ = scheduler.Now();
}

// Again as long as memory waits, so that it comes back as fast as it is freed (rule G4). But
// another server's lease comes first.
Task<Status> LeaseKeeper::RenewRegistered(Scheduler& scheduler, const ServerInfo& server,
                                          Kept& kept) {
  for (bool has_more = true; has_more && !stopping_;) {
    control::RenewRequest request;
    if (epochs_ != nullptr) request.epoch = epochs_->AcknowledgedTo(server.id);
    const Clock::time_point asked = scheduler.Now();
    BOOST_OUTCOME_CO_TRY(
        reply, co_await CallControl<control::RenewReply>(scheduler.endpoint(), server.id, request));
    if (clock_ != nullptr && server.id == ServerId{0}) {
      clock_->Learn({reply.clock_us, asked, scheduler.Now()});
    }
    if (epochs_ != nullptr) {
      epochs_->Learn(server.id, reply.epoch, reply.acknowledged);
      co_await epochs_->GiveBackOverdue(scheduler, server.id);
    }
    const bool is_short = kept.refusals && *kept.refusals != reply.refusals;
    kept.refusals = reply.refusals;
    if (is_short && allocator_ != nullptr) {
      allocator_->GiveUpUnused();
      co_await allocator_->GiveBackReturns(scheduler);
    }
    const uint16_t waiting = std::min(reply.waiting, control::RenewReply::kMaxRanges);
    has_more = waiting == control::RenewReply::kMaxRanges && allocator_ != nullptr;
    if (waiting != 0 && allocator_ != nullptr) {
      const bool are_taken = co_await allocator_->GiveUp(scheduler, server.id, reply);
      has_more = has_more && are_taken;
    }
    if (has_more && waits_to_connect_) {
      kept.due = due_ = scheduler.Now();
      has_more = false;
    }
  }
  co_return Ok();
}

void LeaseKeeper::Failed(const ServerInfo& server, Kept& kept, const Error& error) {
  // Where leases do not expire, nothing is lost: sessions report what they cannot reach.
  if (!kept.has_failed && server.lease_ms != 0) {
    LOG(WARNING) << "cannot renew the lease with memory server " << ToInteger(server.id) << " at "
                 << server.address << ": " << error.ToString()
                 << ". A server that hears nothing for " << server.lease_ms
                 << " ms disconnects this process and lets others have its locks; writes under way "
                    "then end as Fenced or MaybeApplied. Is the network up, and does this process "
                    "get the processor? If not, start the servers with longer --lease_ms";
  }
  kept.has_failed = true;
}

}  // namespace gossamer
