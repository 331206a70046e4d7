#include "common/fabric/verbs/compute_port.h"

#include <vector>

#include "common/fabric/verbs/endpoint.h"
#include "common/fabric/verbs/locked_memory.h"

namespace gossamer::verbs {

Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options) {
  BOOST_OUTCOME_TRYV(CheckDevices(options.rdma.device));
  return std::unique_ptr<ComputePort>(std::make_unique<VerbsComputePort>(options));
}

Result<Peer> VerbsComputePort::FindPeer(ServerId server) {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(server);
  if (found == peers_.end()) return NotConnected(server);
  return found->second;
}

Status VerbsComputePort::Connect(ServerId server, const std::string& address,
                                 uint64_t incarnation) {
  BOOST_OUTCOME_TRY(to, ParseSocketAddress(address));
  for (;;) {
    std::shared_ptr<Device> device;
    {
      const std::lock_guard lock(mutex_);
      if (device_ == nullptr && !options_.rdma.device.empty()) {
        BOOST_OUTCOME_TRY(named, Device::Find(options_.rdma.device));
        device_ = std::move(named);
      }
      device = device_;
    }
    // Without the mutex: a silent server holds up no NewEndpoint.
    BOOST_OUTCOME_TRY(peer, ProbePeer(to, incarnation, device, options_));
    const std::lock_guard lock(mutex_);
    if (device_ != device) continue;  // another thread has chosen the device meanwhile
    device_ = peer.device;
    if (facts_.empty()) {
      facts_ = std::move(peer.facts);
      port_number_ = peer.port_number;
    }
    peers_.insert_or_assign(server, std::move(peer));
    return Ok();
  }
}

Result<std::unique_ptr<Endpoint>> VerbsComputePort::NewEndpoint() {
  std::shared_ptr<Device> device;
  std::vector<ServerId> servers;
  {
    const std::lock_guard lock(mutex_);
    if (device_ == nullptr) {
      BOOST_OUTCOME_TRY(found, Device::Find(options_.rdma.device));
      device_ = std::move(found);
    }
    device = device_;
    for (const auto& [server, unused] : peers_) servers.push_back(server);
  }
  BOOST_OUTCOME_TRY(endpoint, VerbsEndpoint::Open(*this, std::move(device)));
  endpoint->AttachAll(servers);
  return std::unique_ptr<Endpoint>(std::move(endpoint));
}

Status VerbsComputePort::CheckRoomFor(uint32_t endpoints, uint32_t servers) {
  return CheckLockedMemory(OwnLockedMemory(), BytesLockedBy(endpoints, servers));
}

DeviceStat VerbsComputePort::device() {
  const std::lock_guard lock(mutex_);
  if (facts_.empty()) return {};
  return {facts_, device_->events().Trouble(port_number_), device_->events().Counts()};
}

}  // namespace gossamer::verbs
