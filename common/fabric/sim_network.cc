#include "common/fabric/sim_network.h"

#include <algorithm>

#include "common/fabric/sim_endpoint.h"
#include "common/fabric/sim_queue_pair.h"

namespace gossamer::sim {
namespace {

// Streams of the seed, one for each purpose.
enum Stream : uint64_t { kDriver = 1 };

}  // namespace

Network::Network(const SimOptions& options)
    : driver_random(options.seed, kDriver), options_(options) {}

bool Network::RunOne() {
  Event* const event = events.Pop(now_);
  if (event == nullptr) return false;
  ++counters.events;
  trace_hash_ = SplitMix64::Mix(trace_hash_ ^ static_cast<uint64_t>(now_)) +
                static_cast<uint64_t>(event->kind);
  Execute(*event);
  return true;
}

void Network::Execute(Event& event) {
  switch (event.kind) {
    case EventKind::kTransitArrives: {
      auto& transit = static_cast<Transit&>(event);
      return transit.queue_pair->Arrive(transit);
    }
    case EventKind::kTransitDelivers: {
      auto& transit = static_cast<Transit&>(event);
      return transit.queue_pair->Deliver(transit);
    }
    case EventKind::kOperation: {
      auto& operation = static_cast<Operation&>(event);
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
      endpoint->Awake();
      return MakeRunnable(*endpoint);
    }
    case EventKind::kClient:
      for (SimEndpoint* endpoint : endpoints_) {
        if (endpoint != nullptr && endpoint->HasWork()) MakeRunnable(*endpoint);
      }
      return;
    case EventKind::kServer: {
      auto& server_event = static_cast<ServerEvent&>(event);
      return server_event.is_tick ? server_event.server.Tick() : server_event.server.ReportGone();
    }
    case EventKind::kNotice: return;
  }
}

SimEndpoint* Network::RunUntilRunnable() {
  for (;;) {
    while (next_runnable_ != runnable_.size()) {
      SimEndpoint* const endpoint = runnable_[next_runnable_++];
      if (endpoint == nullptr) continue;  // gone
      endpoint->queued = false;
      if (endpoint->HasWork() && endpoint->client().paused_until <= now_) return endpoint;
    }
    runnable_.clear();
    next_runnable_ = 0;
    if (!events.has_foreground() || !RunOne()) return nullptr;
  }
}

void Network::MakeRunnable(SimEndpoint& endpoint) {
  if (endpoint.queued || endpoint.client().paused_until > now_) return;
  endpoint.queued = true;
  runnable_.push_back(&endpoint);
}

void Network::WakeAt(SimEndpoint& endpoint, Nanoseconds due) {
  Wake& wake = wakes_.Take();
  wake.endpoint_id = endpoint.id();
  events.Arm(wake, due);
}

void Network::KillClient(uint64_t client_uuid) {
  Client& client = FindClient(client_uuid);
  if (client.dead) return;
  client.dead = true;
  client.paused_until = 0;
  ++counters.killed_clients;
  for (SimEndpoint* endpoint : endpoints_) {
    if (endpoint != nullptr && &endpoint->client() == &client) endpoint->BreakAll();
  }
}

void Network::PauseClient(uint64_t client_uuid, Nanoseconds until) {
  Client& client = FindClient(client_uuid);
  if (client.dead || until <= client.paused_until) return;
  client.paused_until = until;
  events.Arm(client, until);
}

uint64_t Network::AddServer(Server& server) {
  servers_.push_back(&server);
  return servers_.size() - 1;
}

Client& Network::FindClient(uint64_t client_uuid) {
  return clients_.try_emplace(client_uuid, client_uuid).first->second;
}

uint64_t Network::AddEndpoint(SimEndpoint& endpoint) {
  endpoints_.push_back(&endpoint);
  return endpoints_.size() - 1;
}

void Network::RemoveEndpoint(SimEndpoint& endpoint) {
  endpoints_[endpoint.id()] = nullptr;
  if (endpoint.queued)
    std::ranges::replace(runnable_, &endpoint, static_cast<SimEndpoint*>(nullptr));
  endpoint.queued = true;  // never again
}

}  // namespace gossamer::sim
