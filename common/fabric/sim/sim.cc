#include "common/fabric/sim/sim.h"

#include <fmt/core.h>
#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "common/fabric/sim/chance.h"
#include "common/fabric/sim/endpoint.h"
#include "common/fabric/sim/queue_pair.h"

namespace gossamer::sim {
namespace {

constexpr Nanoseconds kIdleForEver = 3'600'000'000'000;  // an hour

bool ReleasesLock(const Batch& batch) {
  const Verb& last = batch.verbs().back();
  return last.is_conditional() && last.space == Space::kLockTable && last.swap_or_add == 0;
}

// For diagnostics, without the client.
std::string ToString(const Outage& outage, Nanoseconds now) {
  return fmt::format("{}cannot reach {} for {} us",
                     outage.endpoint_id == Outage::kAll
                         ? std::string()
                         : fmt::format("by its endpoint {} ", outage.endpoint_id),
                     outage.server_number == Outage::kAll
                         ? "any memory server"
                         : fmt::format("memory server sim:{}", outage.server_number),
                     (outage.until - now) / 1000);
}

SimEndpoint& Ours(Endpoint& endpoint) { return static_cast<SimEndpoint&>(endpoint.undecorated()); }

}  // namespace

Nanoseconds SimNetwork::FlightTime() {
  // Packets on different queue pairs overtake each other.
  return costs().one_way_ns + (options_.faults.reorder ? UpTo(delay_random, 400) : 0);
}

Nanoseconds SimNetwork::ExtraDelay() {
  if (!options_.faults.delay || !OneIn(delay_random, options_.verbs_per_long_delay)) return 0;
  ++counters_.long_delays;
  return LogUpTo(delay_random, options_.longest_delay.count());
}

Nanoseconds SimNetwork::LagOf(const Batch& batch, ClientState& client, const Server& server) {
  if (!options_.faults.delay || options_.batches_per_lag == 0 || client.lags_until > now_) return 0;
  const uint64_t bits = options_.lag_bits;
  const bool counts = batch.verbs().front().is_write() && ReleasesLock(batch) &&
                      (bits == 0 || (batch.verbs().back().compare & bits) != 0);
  if (!counts || !OneIn(lag_random, options_.batches_per_lag)) return 0;
  ++counters_.long_delays;
  const Nanoseconds half = options_.longest_lag.count() / 2;
  const Nanoseconds lag = half + UpTo(lag_random, half);
  client.lags_until = now_ + lag;
  if (tell) tell(fmt::format("a batch of client {} arrives {} us late", client.uuid, lag / 1000));
  if (!options_.faults.partition) return lag;
  Outage outage;
  outage.client_uuid = client.uuid;
  outage.until = now_ + (OneIn(lag_random, 2) ? lag : UpTo(lag_random, lag));
  for (uint64_t other = 0; other < servers_.size(); ++other) {
    if (servers_[other] == nullptr || servers_[other] == &server) continue;
    outage.server_number = other;
    TakeDown(outage);
  }
  return lag;
}

Nanoseconds SimNetwork::CallDelay() {
  const Nanoseconds extra = ExtraDelay();
  const uint32_t calls_per_late = options_.calls_per_late_call;
  const bool may_be_late = options_.faults.delay && calls_per_late != 0;
  if (!may_be_late || !OneIn(delay_random, calls_per_late)) return extra;
  ++counters_.long_delays;
  return extra + UpTo(delay_random, options_.longest_late_call.count());
}

Nanoseconds SimNetwork::LongSight() {
  if (!options_.faults.delay || !OneIn(delay_random, options_.writes_per_long_sight)) return 0;
  const Nanoseconds most = options_.longest_delay.count();
  return OneIn(delay_random, 2) ? UpTo(delay_random, most) : LogUpTo(delay_random, most);
}

Nanoseconds SimNetwork::LateCallTime() {
  return LogUpTo(call_random, options_.latest_packet.count());
}

Nanoseconds SimNetwork::LateTime() { return LogUpTo(loss_random, options_.latest_packet.count()); }

Nanoseconds SimNetwork::NoticeTime() {
  return loss_random.Below(4) == 0 ? 0 : LogUpTo(loss_random, options_.latest_notice.count());
}

bool SimNetwork::RunOne() {
  // A caller that polls while only clocks tick waits in vain.
  if (events.has_foreground()) {
    idle_since_ = now_;
  } else if (now_ - idle_since_ > kIdleForEver) {
    LOG(FATAL) << "a simulated endpoint is polled for ever: nothing is left that could happen";
  }
  Event* const event = events.Pop(now_);
  if (event == nullptr) return false;
  ++counters_.events;
  Trace(static_cast<uint64_t>(now_) ^ static_cast<uint64_t>(event->kind) << 56);
  Execute(*event);
  return true;
}

void SimNetwork::Execute(Event& event) {
  switch (event.kind) {
    case EventKind::kTransitLeaves: {
      return static_cast<Transit&>(event).queue_pair->Leave();
    }
    case EventKind::kTransitArrives: {
      auto& transit = static_cast<Transit&>(event);
      return transit.queue_pair->Arrive(transit);
    }
    case EventKind::kTransitDelivers: {
      auto& transit = static_cast<Transit&>(event);
      return transit.queue_pair->Deliver(transit);
    }
    case EventKind::kOperation: {
      auto& operation = static_cast<VerbInFlight&>(event);
      return operation.queue_pair->Run(operation);
    }
    case EventKind::kCallArrives: {
      auto& call = static_cast<CallInFlight&>(event);
      return call.queue_pair->Arrive(call);
    }
    case EventKind::kCallDelivers: {
      auto& call = static_cast<CallInFlight&>(event);
      return call.queue_pair->Deliver(call);
    }
    case EventKind::kWake: {
      auto& wake = static_cast<Wake&>(event);
      SimEndpoint* const endpoint = endpoints_[wake.endpoint_id];
      wakes_.Give(wake);
      if (endpoint == nullptr) return;
      endpoint->resuming = false;
      endpoint->Awake();
      return MakeRunnable(*endpoint);
    }
    case EventKind::kClient: {
      for (Server* server : servers_) {
        if (server != nullptr) server->Fence(static_cast<ClientState&>(event).uuid);
      }
      return;
    }
    case EventKind::kServer: {
      auto& server_event = static_cast<ServerEvent&>(event);
      return server_event.is_tick ? server_event.server->Tick() : server_event.server->ReportGone();
    }
    case EventKind::kFarewell: {
      QueuePair& queue_pair = *static_cast<Farewell&>(event).queue_pair;
      return queue_pair.server().CloseQueuePair(queue_pair, false);
    }
    case EventKind::kNotice: {
      auto& notice = static_cast<Notice&>(event);
      return endpoints_[notice.endpoint_id]->LearnOfBreak(notice.server);
    }
    case EventKind::kDriver: {
      auto& driver_event = static_cast<DriverEvent&>(event);
      const std::function<void()> act = std::move(driver_event.act);
      driver_events_.Give(driver_event);
      return act();
    }
  }
}

void SimNetwork::CallAt(Clock::time_point due, std::function<void()> act) {
  DriverEvent& event = driver_events_.Take();
  event.act = std::move(act);
  events.Arm(event, std::max<Nanoseconds>(now_, due.time_since_epoch().count()));
}

Endpoint* SimNetwork::RunUntilRunnable() {
  for (;;) {
    while (next_runnable_ != runnable_.size()) {
      SimEndpoint* const endpoint = runnable_[next_runnable_++];
      if (endpoint == nullptr) continue;  // destroyed
      endpoint->queued = false;
      if (!endpoint->HasWork()) continue;
      if (endpoint->free_at() <= now_) return endpoint;
      MakeRunnable(*endpoint);
    }
    runnable_.clear();
    next_runnable_ = 0;
    if (!events.has_foreground() || !RunOne()) return nullptr;
  }
}

void SimNetwork::TakeOut(SimEndpoint& endpoint) {
  if (!std::exchange(endpoint.queued, false)) return;
  std::ranges::replace(runnable_, &endpoint, nullptr);
}

void SimNetwork::MakeRunnable(SimEndpoint& endpoint) {
  if (endpoint.queued || endpoint.resuming) return;
  if (endpoint.free_at() > now_) {
    endpoint.resuming = true;
    return WakeAt(endpoint, endpoint.free_at());
  }
  endpoint.queued = true;
  runnable_.push_back(&endpoint);
}

void SimNetwork::WakeAt(SimEndpoint& endpoint, Nanoseconds due) {
  Wake& wake = wakes_.Take();
  wake.endpoint_id = endpoint.id();
  events.Arm(wake, due);
}

void SimNetwork::KillClient(uint64_t client_uuid) {
  ClientState& client = FindClient(client_uuid);
  if (client.dead) return;
  client.dead = true;
  client.paused_until = 0;
  ++counters_.killed_clients;
  if (tell) tell(fmt::format("client {} is killed", client_uuid));
  if (options_.observes_death.count() != 0) {
    events.Arm(client, now_ + 1 + UpTo(loss_random, options_.observes_death.count()));
  }
  for (SimEndpoint* endpoint : endpoints_) {
    if (endpoint != nullptr && &endpoint->client() == &client) endpoint->BreakAll();
  }
}

bool SimNetwork::DrawsDeathInBatch() {
  return options_.faults.cut && counters_.cuts < options_.most_cuts &&
         OneIn(loss_random, options_.writes_per_cut);
}

void SimNetwork::KillInBatch(const ClientState& client) {
  ++counters_.cuts;
  killed_in_batch_.push_back(client.uuid);
  KillClient(client.uuid);
}

std::optional<uint64_t> SimNetwork::TakeKilledInBatch() {
  if (killed_in_batch_.empty()) return std::nullopt;
  const uint64_t uuid = killed_in_batch_.back();
  killed_in_batch_.pop_back();
  return uuid;
}

void SimNetwork::MayStopBehind(const Batch& batch, SimEndpoint& endpoint) {
  if (!options_.faults.pause || options_.batches_per_stop == 0) return;
  if (!ReleasesLock(batch)) return;
  const auto counts = [this](const Verb& verb) {
    return verb.is_write() && verb.length >= options_.stop_bytes;
  };
  const auto writes = static_cast<size_t>(std::ranges::count_if(batch.verbs(), counts));
  if (writes < options_.stop_writes || !OneIn(stop_random, options_.batches_per_stop)) return;
  const Nanoseconds until = now_ + UpTo(stop_random, options_.longest_stop.count());
  const uint64_t uuid = endpoint.client().uuid;
  if (tell) {
    tell(fmt::format("{} {} stops until {} ns",
                     options_.stops_thread ? "a thread of client" : "client", uuid, until));
  }
  if (options_.stops_thread) return endpoint.StopUntil(until);
  PauseClient(uuid, TimeAt(until));
}

CallLoss SimNetwork::DrawCallLoss() {
  if (!options_.faults.lose_calls || !OneIn(call_random, options_.calls_per_loss)) {
    return CallLoss::kNone;
  }
  ++counters_.lost_calls;
  if (options_.late_call_percent != 0 && call_random.Below(100) < options_.late_call_percent) {
    ++counters_.late_calls;
    return CallLoss::kLate;
  }
  return call_random.Below(2) == 0 ? CallLoss::kRequest : CallLoss::kAnswer;
}

bool SimNetwork::DrawsPartition(uint32_t one_in) {
  return options_.faults.partition && counters_.partitions < options_.most_partitions &&
         OneIn(partition_random, one_in);
}

void SimNetwork::Partition(const SimEndpoint& endpoint, uint64_t server_number) {
  Outage outage;
  outage.client_uuid = endpoint.client().uuid;
  const uint64_t scope = partition_random.Below(4);
  if (scope < 2) outage.endpoint_id = endpoint.id();
  if (scope < 3) outage.server_number = server_number;
  const Nanoseconds longest = options_.longest_partition.count();
  outage.until = now_ + std::min(longest, LogUpTo(partition_random, longest));
  TakeDown(outage);
}

void SimNetwork::TakeDown(const Outage& outage) {
  std::erase_if(outages_, [this](const Outage& each) { return each.until <= now_; });
  outages_.push_back(outage);
  ++counters_.partitions;
  if (tell) {
    tell(fmt::format("client {} {}", outage.client_uuid, ToString(outage, now_)));
  }
  for (SimEndpoint* each : endpoints_) {
    if (each != nullptr && outage.Concerns(each->client().uuid, each->id()))
      each->LoseLinks(outage);
  }
}

Nanoseconds SimNetwork::DownUntil(uint64_t client_uuid, uint64_t endpoint_id,
                                  uint64_t server_number) const {
  Nanoseconds until = 0;
  for (const Outage& outage : outages_) {
    const bool is_this = outage.Concerns(client_uuid, endpoint_id) && outage.IsTo(server_number);
    if (is_this) until = std::max(until, outage.until);
  }
  return until;
}

void SimNetwork::PauseClient(uint64_t client_uuid, Clock::time_point until) {
  ClientState& client = FindClient(client_uuid);
  if (client.dead) return;
  client.paused_until = std::max(client.paused_until, until.time_since_epoch().count());
}

void SimNetwork::StopServer(const std::string& address, Clock::time_point until) {
  Server* const server = FindServer(address);
  if (server == nullptr) return;
  ++counters_.stopped_servers;
  server->StopUntil(until.time_since_epoch().count());
}

void SimNetwork::SlowServer(const std::string& address, Clock::time_point until,
                            std::chrono::nanoseconds longest) {
  Server* const server = FindServer(address);
  if (server == nullptr) return;
  ++counters_.slow_servers;
  server->SlowUntil(until.time_since_epoch().count(), longest.count());
}

void SimNetwork::SetPathMtu(const std::string& address, uint32_t bytes) {
  Server* const server = FindServer(address);
  if (server != nullptr) server->SetPathMtu(bytes);
}

std::span<std::byte> SimNetwork::Memory(const std::string& address) {
  Server* const server = FindServer(address);
  return server == nullptr ? std::span<std::byte>() : server->space(Space::kRegion);
}

void SimNetwork::SetOwner(Endpoint& endpoint, void* owner) { Ours(endpoint).owner = owner; }
void* SimNetwork::Owner(Endpoint& endpoint) const { return Ours(endpoint).owner; }

uint64_t SimNetwork::IdOf(Endpoint& endpoint) const { return Ours(endpoint).id(); }

ClientState& SimNetwork::FindClient(uint64_t client_uuid) {
  return clients_.try_emplace(client_uuid, client_uuid).first->second;
}

uint64_t SimNetwork::AddEndpoint(SimEndpoint& endpoint) {
  endpoints_.push_back(&endpoint);
  return endpoints_.size() - 1;
}

void SimNetwork::RemoveEndpoint(SimEndpoint& endpoint) {
  endpoints_[endpoint.id()] = nullptr;
  if (endpoint.queued)
    std::ranges::replace(runnable_, &endpoint, static_cast<SimEndpoint*>(nullptr));
  endpoint.queued = true;  // never queued again
}

}  // namespace gossamer::sim
