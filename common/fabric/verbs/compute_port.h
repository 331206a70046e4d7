// A compute server's side of the verbs fabric: its memory servers, and the device that reaches them
// all.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/compute_port.h"
#include "common/fabric/verbs/connect.h"
#include "common/fabric/verbs/device.h"

namespace gossamer::verbs {

class VerbsComputePort final : public ComputePort {
 public:
  explicit VerbsComputePort(const ComputePortOptions& options) : options_(options) {}

  void RequirePathMtu(uint32_t bytes) override { options_.least_path_mtu = bytes; }
  Status Connect(ServerId server, const std::string& address, uint64_t incarnation) override;
  Result<std::unique_ptr<Endpoint>> NewEndpoint() override;
  Status CheckRoomFor(uint32_t endpoints, uint32_t servers) override;
  DeviceStat device() override;

  // Errors: InvalidArgument for a server that the port is not connected to.
  Result<Peer> FindPeer(ServerId server);
  const ComputePortOptions& options() const { return options_; }

 private:
  ComputePortOptions options_;
  std::mutex mutex_;
  std::shared_ptr<Device> device_;  // null until a server is found or an endpoint requested
  std::map<ServerId, Peer> peers_;
  // Of the port that reaches the first server; none before.
  std::vector<std::pair<std::string, std::string>> facts_;
  uint8_t port_number_ = 0;
};

Result<std::unique_ptr<ComputePort>> OpenComputePort(const ComputePortOptions& options);

}  // namespace gossamer::verbs
