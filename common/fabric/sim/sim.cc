#include "common/fabric/sim/sim.h"

#include <array>
#include <utility>

#include "common/fabric/sim/endpoint.h"
#include "common/fabric/sim/network.h"

namespace gossamer {
namespace {

using Fault = std::pair<std::string_view, bool SimFaults::*>;
constexpr std::array<Fault, 10> kFaults = {{{"tear", &SimFaults::tear},
                                            {"delay", &SimFaults::delay},
                                            {"reorder", &SimFaults::reorder},
                                            {"write_back", &SimFaults::write_back},
                                            {"break", &SimFaults::break_queue_pairs},
                                            {"partition", &SimFaults::partition},
                                            {"calls", &SimFaults::lose_calls},
                                            {"cut", &SimFaults::cut},
                                            {"kill", &SimFaults::kill},
                                            {"pause", &SimFaults::pause}}};

sim::SimEndpoint& Ours(Endpoint& endpoint) {
  return static_cast<sim::SimEndpoint&>(endpoint.undecorated());
}

}  // namespace

Result<SimFaults> ParseSimFaults(std::string_view list) {
  SimFaults faults;
  if (list == "none") return faults;
  for (bool more = true; more;) {
    const size_t comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) list.remove_prefix(comma + 1);
    bool found = name == "all";
    for (const auto& [fault_name, member] : kFaults) {
      if (name != "all" && name != fault_name) continue;
      faults.*member = true;
      found = true;
    }
    if (found) continue;
    return MakeError(Code::kInvalidArgument,
                     "fault '" + std::string(name) +
                         "': give none, all, or some of tear, delay, reorder, write_back, break, "
                         "partition, calls, cut, kill and pause with commas between them");
  }
  return faults;
}

std::string SimFaultsText(const SimFaults& faults) {
  std::string text;
  for (const auto& [name, member] : kFaults) {
    if (faults.*member) text += (text.empty() ? "" : ",") + std::string(name);
  }
  return text.empty() ? "none" : text;
}

SimNetwork::SimNetwork(const SimOptions& options)
    : network_(std::make_unique<sim::Network>(options)) {}
SimNetwork::~SimNetwork() = default;

const SimOptions& SimNetwork::options() const { return network_->options(); }
void SimNetwork::SetFaults(const SimFaults& faults) { network_->SetFaults(faults); }
SimNetwork::Clock::time_point SimNetwork::Now() const { return network_->Now(); }
Endpoint* SimNetwork::RunUntilRunnable() { return network_->RunUntilRunnable(); }
bool SimNetwork::RunOne() { return network_->RunOne(); }

void SimNetwork::SetOwner(Endpoint& endpoint, void* owner) { Ours(endpoint).owner = owner; }
void* SimNetwork::Owner(Endpoint& endpoint) const { return Ours(endpoint).owner; }

uint64_t SimNetwork::IdOf(Endpoint& endpoint) const { return Ours(endpoint).id(); }

void SimNetwork::KillClient(uint64_t client_uuid) { network_->KillClient(client_uuid); }
std::optional<uint64_t> SimNetwork::TakeKilledInBatch() { return network_->TakeKilledInBatch(); }
void SimNetwork::PauseClient(uint64_t client_uuid, Clock::time_point until) {
  network_->PauseClient(client_uuid, until.time_since_epoch().count());
}

void SimNetwork::StopServer(const std::string& address, Clock::time_point until) {
  sim::Server* const server = network_->FindServer(address);
  if (server == nullptr) return;
  ++network_->counters.stopped_servers;
  server->StopUntil(until.time_since_epoch().count());
}

void SimNetwork::SlowServer(const std::string& address, Clock::time_point until,
                            std::chrono::nanoseconds longest) {
  sim::Server* const server = network_->FindServer(address);
  if (server == nullptr) return;
  ++network_->counters.slow_servers;
  server->SlowUntil(until.time_since_epoch().count(), longest.count());
}

void SimNetwork::SetPathMtu(const std::string& address, uint32_t bytes) {
  sim::Server* const server = network_->FindServer(address);
  if (server != nullptr) server->SetPathMtu(bytes);
}

std::span<std::byte> SimNetwork::Memory(const std::string& address) {
  sim::Server* const server = network_->FindServer(address);
  return server == nullptr ? std::span<std::byte>() : server->space(Space::kRegion);
}

const std::vector<SimFault>& SimNetwork::faults_met() const { return network_->fault_log.faults(); }

void SimNetwork::SetTeller(std::function<void(const std::string&)> tell) {
  network_->tell = std::move(tell);
}

Random& SimNetwork::random() { return network_->driver_random; }
const SimCounters& SimNetwork::counters() const { return network_->counters; }
uint64_t SimNetwork::TraceHash() const { return network_->trace_hash(); }

}  // namespace gossamer
