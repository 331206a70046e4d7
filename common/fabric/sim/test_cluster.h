// A simulated network with one memory server and coroutine clients, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "common/fabric/conformance/harness.h"
#include "common/fabric/open/open_port.h"
#include "common/fabric/scheduler.h"
#include "common/fabric/sim/sim.h"
#include "common/random_id.h"
#include "common/task.h"

namespace gossamer::test {

// One compute server with one endpoint.
class SimClient {
 public:
  SimClient(SimNetwork& network, uint64_t uuid, const std::string& address)
      : port_(Open(network, uuid, address)),
        endpoint_(port_->NewEndpoint().value()),
        scheduler_(*endpoint_),
        scratch_(endpoint_->buffers().Allocate(4096).value()) {
    network.SetOwner(*endpoint_, this);
  }

  Endpoint& endpoint() { return *endpoint_; }
  Scheduler& scheduler() { return scheduler_; }
  BufferLease Buffer(size_t bytes) { return endpoint_->buffers().Allocate(bytes).value(); }

  // Executes one verb. Returns its status. `scratch` holds the results of READs and atomics.
  Task<VerbStatus> Do(Verb verb) {
    InlineBatch<1> batch(kServer);
    verb.local = scratch_.address();
    batch.Add(verb);
    co_await endpoint_->Execute(batch);
    co_return batch.status();
  }
  Task<VerbStatus> Fill(uint64_t offset, uint32_t bytes, uint8_t value,
                        Space space = Space::kRegion) {
    const BufferLease buffer = Buffer(bytes);
    std::memset(buffer.data(), value, bytes);
    InlineBatch<1> batch(kServer);
    batch.Add(Verb::Write(offset, bytes, buffer.address(), space));
    co_await endpoint_->Execute(batch);
    co_return batch.status();
  }
  std::byte* scratch() { return scratch_.data(); }

 private:
  static std::unique_ptr<ComputePort> Open(SimNetwork& network, uint64_t uuid,
                                           const std::string& address) {
    ComputePortOptions options;
    options.client_uuid = uuid;
    options.network = &network;
    auto port = OpenComputePort(FabricKind::kSim, options).value();
    EXPECT_TRUE(port->Connect(kServer, address));
    return port;
  }

  std::unique_ptr<ComputePort> port_;
  std::unique_ptr<Endpoint> endpoint_;
  Scheduler scheduler_;
  BufferLease scratch_;
};

class SimCluster {
 public:
  static SimOptions Options(uint64_t seed, std::string_view faults) {
    SimOptions options;
    options.seed = seed;
    options.faults = ParseSimFaults(faults).value();
    return options;
  }

  explicit SimCluster(const SimOptions& options, size_t clients, bool on_chip_locks = true)
      : network_(options) {
    MemoryPortOptions memory;
    memory.region_bytes = uint64_t{1} << 20;
    memory.lock_table_bytes = 4096;
    memory.on_chip_locks = on_chip_locks ? OnChipLocks::kIfPossible : OnChipLocks::kNever;
    memory.network = &network_;
    memory_ = OpenMemoryPort(FabricKind::kSim, memory).value();
    EXPECT_TRUE(memory_->Start(handler_, RandomId()));
    for (size_t i = 0; i < clients; ++i) {
      clients_.push_back(std::make_unique<SimClient>(network_, i + 1, memory_->address()));
    }
  }
  SimCluster(uint64_t seed, std::string_view faults, size_t clients)
      : SimCluster(Options(seed, faults), clients) {}

  SimNetwork& network() { return network_; }
  MemoryPort& memory() { return *memory_; }
  SimClient& client(size_t index) { return *clients_[index]; }
  std::byte* region() { return memory_->region().data(); }

  void Spawn(size_t client, Task<void> task) {
    clients_[client]->scheduler().Spawn(std::move(task));
  }
  // Runs until no event is left.
  void Run() {
    while (Endpoint* endpoint = network_.RunUntilRunnable()) {
      static_cast<SimClient*>(network_.Owner(*endpoint))->scheduler().RunOnce();
    }
  }

 private:
  SimNetwork network_;
  TestControlHandler handler_;
  std::unique_ptr<MemoryPort> memory_;
  std::vector<std::unique_ptr<SimClient>> clients_;
};

}  // namespace gossamer::test
