// SimulatedClients: a fixture with a store in a simulated network, and compute servers in it that
// run only while a test polls them. One of them, the worker, keeps its leases; the others lose
// theirs while only the worker runs.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "common/bootstrap/testing/memory_bootstrap.h"
#include "common/embedded_memory.h"
#include "common/fabric/sim/sim.h"
#include "compute/store/open_session.h"
#include "compute/store/open_store.h"

namespace gossamer {

struct SimulatedClient {
  std::unique_ptr<OpenStore> store;
  std::vector<std::unique_ptr<OpenSession>> sessions;

  OpenSession& New() {
    sessions.push_back(std::move(store->NewOpenSession().value()));
    return *sessions.back();
  }
  void Close() {
    sessions.clear();
    store.reset();
  }
};

class SimulatedClients : public ::testing::Test {
 protected:
  static constexpr uint64_t kAmple = uint64_t{4} << 20;
  static constexpr uint64_t kFewChunks = kHeapOffset + (uint64_t{256} << 10);
  static constexpr uint64_t kStalled = 2;  // uuid of the compute server that stands still
  static constexpr uint64_t kDying = 3;

  ~SimulatedClients() override;
  void StartMemory(uint32_t servers, uint64_t memory_bytes, uint64_t chunk_bytes);
  // Makes `record` what the bootstrap has, and what compute servers open from now on.
  void Publish(const StoreRecord& record);
  // Opens the compute server that keeps its leases.
  void StartWorker();
  SimulatedClient Open(uint64_t uuid);

  bool IsInForce(uint64_t uuid, ServerId server = ServerId{0});
  uint64_t BytesOf(uint64_t uuid, ServerId server = ServerId{0});
  // Only the worker runs for that long.
  void Pass(std::chrono::milliseconds time);
  // The worker sweeps.
  void Sweep();
  // Only the worker runs for so long that all other leases end; then it sweeps.
  void OutliveAndSweep();
  // The worker puts keys from `first` on until memory is short: what was swept is used again.
  // Returns the first key that it has not put.
  uint64_t FillMemory(uint64_t first, std::string_view value = "EEEEEEEE");
  static void RunOn(OpenSession& session, const std::function<bool()>& is_done);
  void ExpectCleanCheck();

  SimNetwork network_{{.seed = 1}};
  StoreRecord record_;
  std::shared_ptr<MemoryBootstrap> bootstrap_ = std::make_shared<MemoryBootstrap>();
  std::vector<std::unique_ptr<EmbeddedMemory>> memory_;
  SimulatedClient worker_;
  OpenSession* work_ = nullptr;
};

}  // namespace gossamer
