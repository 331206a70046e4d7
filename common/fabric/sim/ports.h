// The compute port of the simulated fabric. Thread-safety: none, unlike the ports of the other
// fabrics.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "common/fabric/compute_port.h"
#include "common/fabric/sim/sim.h"

namespace gossamer::sim {

class SimComputePort final : public ComputePort {
 public:
  SimComputePort(SimNetwork& network, const ComputePortOptions& options)
      : network_(network), options_(options), client_(network.FindClient(options.client_uuid)) {}

  void RequirePathMtu(uint32_t bytes) override { options_.least_path_mtu = bytes; }
  Status Connect(ServerId server, const std::string& address, uint64_t incarnation) override;
  Result<std::unique_ptr<Endpoint>> NewEndpoint() override;

  // Identifies a connected server.
  struct Peer {
    uint64_t number = 0;  // in its address
    uint64_t incarnation = 0;
  };
  Result<Peer> PeerOf(ServerId server) const;
  const ComputePortOptions& options() const { return options_; }

 private:
  SimNetwork& network_;
  ComputePortOptions options_;
  ClientState& client_;
  std::map<uint64_t, Peer> servers_;  // by id
};

}  // namespace gossamer::sim
