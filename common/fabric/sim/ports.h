// The two ports of the simulated fabric. Thread-safety: none, unlike the ports of the other
// fabrics.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "common/fabric/compute_port.h"
#include "common/fabric/memory_port.h"
#include "common/fabric/sim/network.h"
#include "common/fabric/sim/server.h"

namespace gossamer::sim {

// Its address is "sim:NUMBER".
class SimMemoryPort final : public MemoryPort {
 public:
  SimMemoryPort(Network& network, std::unique_ptr<Server> server, uint64_t number);
  ~SimMemoryPort() override;

  Status Start(ControlHandler& handler, uint64_t incarnation) override;
  void Fence(uint64_t client_uuid) override { server_->Fence(client_uuid); }
  bool observes_death() const override { return network_.options().observes_death.count() != 0; }
  void Stop() override { server_->Stop(); }
  std::span<std::byte> region() override { return server_->space(Space::kRegion); }
  std::string address() const override;
  LockTablePlacement lock_table_placement() const override;
  uint32_t path_mtu() const override { return server_->path_mtu(); }
  std::string memory_description() const override { return "simulated"; }

 private:
  Network& network_;
  std::unique_ptr<Server> server_;
  uint64_t number_;
  bool started_ = false;
};

class SimComputePort final : public ComputePort {
 public:
  SimComputePort(Network& network, const ComputePortOptions& options)
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
  Network& network_;
  ComputePortOptions options_;
  ClientState& client_;
  std::map<uint64_t, Peer> servers_;  // by id
};

}  // namespace gossamer::sim
