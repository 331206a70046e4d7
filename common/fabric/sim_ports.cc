#include "common/fabric/sim_ports.h"

#include <charconv>
#include <vector>

#include "common/fabric/sim_endpoint.h"

namespace gossamer::sim {
namespace {

constexpr std::string_view kScheme = "sim:";

Status CheckNetwork(const SimNetwork* network) {
  if (network != nullptr) return Ok();
  return MakeError(Code::kInvalidArgument, "a port of the simulated fabric without a network");
}

}  // namespace

SimMemoryPort::SimMemoryPort(Network& network, std::unique_ptr<Server> server)
    : network_(network), server_(std::move(server)), number_(network.AddServer(*server_)) {}

SimMemoryPort::~SimMemoryPort() {
  Stop();
  network_.RemoveServer(number_);
}

Status SimMemoryPort::Start(ControlHandler& handler, uint64_t incarnation) {
  if (started_) return MakeError(Code::kInvalidArgument, "memory port started twice");
  started_ = true;
  server_->Start(handler, incarnation);
  return Ok();
}

std::string SimMemoryPort::address() const {
  return std::string(kScheme) + std::to_string(number_);
}

LockTablePlacement SimMemoryPort::lock_table_placement() const {
  return server_->on_chip_locks() ? LockTablePlacement::kDeviceMemory : LockTablePlacement::kDram;
}

Status SimComputePort::Connect(ServerId server, const std::string& address, uint64_t incarnation) {
  uint64_t number = 0;
  const char* const end = address.data() + address.size();
  const bool is_ours = address.starts_with(kScheme) &&
                       std::from_chars(address.data() + kScheme.size(), end, number).ptr == end;
  const Server* const found = is_ours ? network_.FindServer(number) : nullptr;
  if (client_.dead || found == nullptr || !found->serving()) {
    return MakeError(Code::kNodeUnreachable, "no simulated memory server at " + address);
  }
  if (network_.DownUntil(client_.uuid, Outage::kAll, number) > network_.now()) {
    network_.fault_log.Add({SimFault::Kind::kLinkDown, client_.uuid, Outage::kAll, number, false,
                            network_.Now(), network_.Now()});
    return MakeError(Code::kNodeUnreachable, "memory server at " + address + " does not answer");
  }
  if (incarnation != 0 && incarnation != found->incarnation()) {
    return MakeError(Code::kNodeUnreachable, address + ": " + std::string(kStartedAnew));
  }
  servers_[ToInteger(server)] = {number, found->incarnation()};
  return Ok();
}

Result<SimComputePort::Peer> SimComputePort::PeerOf(ServerId server) const {
  const auto found = servers_.find(ToInteger(server));
  if (found != servers_.end()) return found->second;
  return MakeError(Code::kInvalidArgument,
                   "memory server " + std::to_string(ToInteger(server)) + " is not connected");
}

Result<std::unique_ptr<Endpoint>> SimComputePort::NewEndpoint() {
  auto endpoint = std::make_unique<SimEndpoint>(*this, network_, client_);
  std::vector<ServerId> servers;
  for (const auto& [server, unused] : servers_) servers.push_back(static_cast<ServerId>(server));
  endpoint->AttachAll(servers);
  return endpoint;
}

Result<std::unique_ptr<MemoryPort>> OpenMemoryPort(const MemoryPortOptions& options) {
  BOOST_OUTCOME_TRYV(CheckNetwork(options.network));
  Network& network = options.network->network();
  BOOST_OUTCOME_TRY(server, Server::Open(network, options));
  return std::unique_ptr<MemoryPort>(std::make_unique<SimMemoryPort>(network, std::move(server)));
}

Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options) {
  BOOST_OUTCOME_TRYV(CheckNetwork(options.network));
  if (options.client_uuid == 0) {
    return MakeError(Code::kInvalidArgument, "client uuid 0: give this compute server a name");
  }
  return std::unique_ptr<ComputePort>(
      std::make_unique<SimComputePort>(options.network->network(), options));
}

}  // namespace gossamer::sim
