#include "compute/store/lease_keeper.h"

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
// Poll interval of the thread while an answer is outstanding.
constexpr std::chrono::milliseconds kPollInterval{1};
// Longest pause when nothing is due, because `Wake` does not wake `Keep`.
constexpr std::chrono::milliseconds kLookInterval{100};

std::chrono::milliseconds Interval(const ServerInfo& server) {
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

void LeaseKeeper::Run() {
  Scheduler scheduler(*endpoint_);
  Clock::time_point due{};
  while (!stopping_ || asking_ != 0) {
    if (!stopping_ && scheduler.Now() >= due) due = RenewDue(scheduler);
    const bool has_orphans = HasOrphans();
    if (has_orphans) orphans_->Tend();
    if (scheduler.RunOnce()) continue;
    std::unique_lock lock(mutex_);
    const Clock::time_point until =
        asking_ != 0 || has_orphans ? Clock::now() + kPollInterval : std::max(due, Clock::now());
    if (wake_.wait_until(lock, until, [this] { return has_news_; })) due = {};
    has_news_ = false;
  }
}

Task<void> LeaseKeeper::Keep(Scheduler& scheduler) {
  while (!stopping_) {
    const Clock::time_point due = RenewDue(scheduler);
    const bool has_orphans = HasOrphans();
    if (has_orphans) orphans_->Tend();
    const Clock::duration rest = has_orphans ? kPollInterval : due - scheduler.Now();
    co_await scheduler.SleepFor(std::max<Clock::duration>(rest, kPollInterval));
  }
  while (asking_ != 0) co_await scheduler.SleepFor(kPollInterval);
}

LeaseKeeper::Clock::time_point LeaseKeeper::RenewDue(Scheduler& scheduler) {
  Clock::time_point next = scheduler.Now() + kLookInterval;
  const ServerInfo* lost = nullptr;
  for (const ServerInfo* server : servers_.All()) {
    if (server->lease_ms == 0) continue;
    Kept& kept = kept_[server->id];
    const Clock::time_point now = scheduler.Now();
    if (kept.due <= now && !kept.is_asking) {
      if (!kept.is_connected && !scheduler.endpoint().IsAttached(server->id)) {
        // Connecting blocks: connect only to the server that has been due longest, and only when no
        // answer is outstanding.
        if (lost == nullptr || kept.due < kept_[lost->id].due) lost = server;
        continue;
      }
      kept.due = now + Interval(*server);
      scheduler.Spawn(Renew(scheduler, *server, kept));
    }
    next = std::min(next, kept.due);
  }
  if (lost == nullptr) return next;
  if (asking_ != 0) return std::min(next, scheduler.Now() + kPollInterval);
  Connect(scheduler.endpoint(), *lost, kept_[lost->id]);
  return scheduler.Now();
}

void LeaseKeeper::Connect(Endpoint& endpoint, const ServerInfo& server, Kept& kept) {
  Status connected = Ok();
  if (port_ != nullptr) connected = port_->Connect(server.id, server.address, server.incarnation);
  if (connected) connected = endpoint.Attach(server.id);
  kept.is_connected = connected.has_value();
  kept.is_registered = false;
  if (connected) return;
  kept.due = endpoint.Now() + Interval(server);
  Failed(server, kept, connected.error());
}

Task<void> LeaseKeeper::Renew(Scheduler& scheduler, const ServerInfo& server, Kept& kept) {
  kept.is_asking = true;
  ++asking_;
  Status renewed = Ok();
  if (!kept.is_connected) {
    QueuePairRequest request;
    request.server = server.id;
    co_await scheduler.endpoint().Execute(request);
    kept.is_connected = request.status.has_value();
    kept.is_registered = false;
    renewed = std::move(request.status);
  }
  if (!renewed) {
    // No connection to renew over.
  } else if (kept.is_registered) {
    const Result<control::RenewReply> reply = co_await CallControl<control::RenewReply>(
        scheduler.endpoint(), server.id, control::RenewRequest{});
    if (!reply) renewed = reply.error();
  } else {
    const Result<Registration> reply = co_await RegisterOver(scheduler.endpoint(), server.id);
    if (!reply) {
      renewed = reply.error();
    } else if (on_registered_) {
      on_registered_(server.id, reply.value());
    }
  }
  kept.is_asking = false;
  --asking_;
  kept.is_registered = renewed.has_value();
  if (renewed) {
    if (kept.has_failed) {
      LOG(INFO) << "the lease with memory server " << ToInteger(server.id) << " at "
                << server.address << " is renewed again";
    }
    kept.has_failed = false;
    co_return;
  }
  // Reconnect at once, unless the reconnection itself failed.
  if (std::exchange(kept.is_connected, false)) kept.due = scheduler.Now();
  Failed(server, kept, renewed.error());
}

void LeaseKeeper::Failed(const ServerInfo& server, Kept& kept, const Error& error) {
  if (!kept.has_failed) {
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
