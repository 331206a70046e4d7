// The two ports of the simulated fabric. Thread-safety: none, unlike those of the other fabrics.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "common/fabric/fabric.h"
#include "common/fabric/sim_network.h"

namespace gossamer::sim {

// Addresses read "sim:NUMBER".
class SimMemoryPort final : public MemoryPort {
 public:
  SimMemoryPort(Network& network, std::unique_ptr<Server> server);
  ~SimMemoryPort() override;

  Status Start(ControlHandler& handler) override;
  void Fence(uint64_t client_uuid) override { server_->Fence(client_uuid); }
  bool observes_death() const override { return network_.options().observes_death.count() != 0; }
  void Stop() override { server_->Stop(); }
  std::span<std::byte> region() override { return server_->space(Space::kRegion); }
  std::string address() const override;
  LockTablePlacement lock_table_placement() const override;
  uint32_t path_mtu() const override { return network_.options().path_mtu; }
  std::string memory_description() const override { return "simulated"; }

 private:
  Network& network_;
  std::unique_ptr<Server> server_;
  uint64_t number_;
  bool started_ = false;
};

class SimComputePort final : public ComputePort {
 public:
  SimComputePort(Network& network, uint64_t client_uuid)
      : network_(network), client_(network.FindClient(client_uuid)) {}

  Status Connect(ServerId server, const std::string& address) override;
  Result<std::unique_ptr<Endpoint>> NewEndpoint() override;

  // The number of a connected server.
  Result<uint64_t> NumberOf(ServerId server) const;

 private:
  Network& network_;
  Client& client_;
  std::map<uint64_t, uint64_t> servers_;  // numbers by id
};

}  // namespace gossamer::sim
