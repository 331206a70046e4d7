#include "common/fabric/sim/ports.h"

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "common/fabric/sim/endpoint.h"
#include "common/fabric/sim/sim.h"
#include "common/mutants.h"

namespace gossamer::sim {
namespace {

std::optional<uint64_t> NumberIn(std::string_view address) {
  uint64_t number = 0;
  if (!address.starts_with(Server::kScheme)) return std::nullopt;
  const char* const end = address.data() + address.size();
  const auto read = std::from_chars(address.data() + Server::kScheme.size(), end, number);
  if (read.ptr != end || read.ec != std::errc()) return std::nullopt;
  return number;
}

}  // namespace

Server* SimNetwork::FindServer(const std::string& address) {
  const std::optional<uint64_t> number = NumberIn(address);
  return number ? FindServer(*number) : nullptr;
}

Status SimComputePort::Connect(ServerId server, const std::string& address, uint64_t incarnation) {
  const std::optional<uint64_t> named = NumberIn(address);
  const uint64_t number = named.value_or(0);
  const Server* const found = named ? network_.FindServer(number) : nullptr;
  const auto log = [&](SimFault::Kind kind) {
    network_.fault_log.Add(
        {kind, client_.uuid, Outage::kAll, number, false, network_.Now(), network_.Now()});
  };
  if (client_.dead || found == nullptr || !found->serving()) {
    log(SimFault::Kind::kServer);
    return MakeError(Code::kNodeUnreachable, "no simulated memory server at " + address);
  }
  if (network_.DownUntil(client_.uuid, Outage::kAll, number) > network_.now()) {
    log(SimFault::Kind::kLinkDown);
    return MakeError(Code::kNodeUnreachable, "memory server at " + address + " does not answer");
  }
  const bool is_another = incarnation != 0 && incarnation != found->incarnation();
  if (is_another && !IsBroken(Mutant::kU6)) {
    return MakeError(Code::kNodeUnreachable, address + ": " + std::string(kStartedAnew));
  }
  Status fits = CheckPathMtu(options_, found->path_mtu(), address);
  if (!fits && !IsBroken(Mutant::kW2Mtu)) return fits;
  servers_[ToInteger(server)] = {number, found->incarnation()};
  return Ok();
}

Result<SimComputePort::Peer> SimComputePort::PeerOf(ServerId server) const {
  const auto found = servers_.find(ToInteger(server));
  if (found != servers_.end()) return found->second;
  return NotConnected(server);
}

Result<std::unique_ptr<Endpoint>> SimComputePort::NewEndpoint() {
  auto endpoint = std::make_unique<SimEndpoint>(*this, network_, client_);
  std::vector<ServerId> servers;
  for (const auto& [server, unused] : servers_) servers.push_back(static_cast<ServerId>(server));
  endpoint->AttachAll(servers);
  return endpoint;
}

Result<std::unique_ptr<MemoryPort>> SimNetwork::OpenMemoryPort(const MemoryPortOptions& options) {
  if (options.listen.empty()) return Server::Open(*this, options, NextServer());
  const std::optional<uint64_t> number = NumberIn(options.listen);
  if (!number || !IsFree(*number)) {
    return MakeError(Code::kInvalidArgument,
                     "a simulated memory server cannot listen at " + options.listen +
                         ": give the address of one that is gone, as sim:0");
  }
  return Server::Open(*this, options, *number);
}

Result<std::unique_ptr<ComputePort>> SimNetwork::OpenComputePort(
    const ComputePortOptions& options) {
  return std::unique_ptr<ComputePort>(std::make_unique<SimComputePort>(*this, options));
}

}  // namespace gossamer::sim
