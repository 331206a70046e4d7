// Memory servers and compute servers of Sherman's client in a simulated network without faults.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/embedded_memory.h"
#include "common/fabric/open/open_port.h"
#include "common/fabric/sim/sim.h"
#include "common/testing/need.h"
#include "compute/research/sherman/store.h"

namespace gossamer::sherman {

class SimCluster {
 public:
  static constexpr uint64_t kCacheBytes = 1 << 20;

  SimCluster(uint64_t seed, uint32_t memory_servers, const Design& design)
      : design_(design), network_({.seed = seed}) {
    record_.store = "test";
    record_.store_id = 1;
    EmbeddedMemoryOptions memory;
    memory.memory_bytes = 32 << 20;
    memory.on_chip_locks = design.on_chip_locks ? OnChipLocks::kIfPossible : OnChipLocks::kNever;
    memory.network = &network_;
    memory_ = Need(StartSimulatedMemory(memory, memory_servers, record_));
  }

  // Another compute server.
  ShermanStore& AddStore(uint64_t cache_bytes = kCacheBytes) {
    ComputePortOptions options;
    options.client_uuid = stores_.size() + 1;
    options.network = &network_;
    stores_.push_back(Need(ShermanStore::OpenOn(Need(OpenComputePort(FabricKind::kSim, options)),
                                                record_, design_, cache_bytes)));
    return *stores_.back();
  }
  // Another client thread.
  ShermanSession& AddSession(ShermanStore& store) {
    sessions_.emplace_back(static_cast<ShermanSession*>(Need(store.NewSession()).release()));
    ShermanSession& session = *sessions_.back();
    network_.SetOwner(session.scheduler().endpoint(), &session);
    return session;
  }

  // Runs all that was spawned.
  void Run() {
    while (IsBusy()) {
      Endpoint* const endpoint = network_.RunUntilRunnable();
      ASSERT_NE(endpoint, nullptr) << "coroutines wait for good";
      auto* const session = static_cast<ShermanSession*>(network_.Owner(*endpoint));
      if (session != nullptr) {
        session->Poll();
      } else {
        endpoint->Poll();
      }
    }
  }

 private:
  bool IsBusy() const {
    for (const auto& session : sessions_) {
      if (session->scheduler().running() != 0) return true;
    }
    return false;
  }

  const Design design_;
  SimNetwork network_;
  StoreRecord record_;
  std::vector<std::unique_ptr<EmbeddedMemory>> memory_;
  std::vector<std::unique_ptr<ShermanStore>> stores_;
  std::vector<std::unique_ptr<ShermanSession>> sessions_;  // destroyed first
};

// 8 bytes in the order of `number`.
inline std::string KeyOf(uint64_t number) {
  const uint64_t word = __builtin_bswap64(number);
  return {reinterpret_cast<const char*>(&word), sizeof word};
}
inline uint64_t NumberOf(std::string_view key) {
  uint64_t word;
  std::memcpy(&word, key.data(), sizeof word);
  return __builtin_bswap64(word);
}
inline std::string ValueOf(uint64_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

}  // namespace gossamer::sherman
