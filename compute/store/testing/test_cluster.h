// TestCluster and TestClient: a store of several memory servers in this process, over shared memory
// or in a simulated network, and compute servers whose sessions run over faulty endpoints.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/bootstrap/bootstrap.h"
#include "common/embedded_memory.h"
#include "common/fabric/sim/sim.h"
#include "compute/store/open_session.h"
#include "compute/store/testing/faulty_endpoint.h"
#include "gossamer/store.h"
#include "proto/store_record.h"

namespace gossamer {

struct ClusterOptions {
  StoreParameters parameters;
  size_t servers = 1;
  uint64_t memory_bytes = uint64_t{16} << 20;
  std::vector<uint64_t> memory_bytes_of;  // of the first servers, instead of `memory_bytes`
  uint64_t chunk_bytes = uint64_t{256} << 10;
  uint64_t lock_table_bytes = 0;  // 0: the default
  SimNetwork* network = nullptr;  // must outlive the cluster; null: shared memory
};

class TestCluster {
 public:
  explicit TestCluster(const ClusterOptions& options);
  ~TestCluster();

  const StoreRecord& record() const { return record_; }
  // Of a cluster over shared memory.
  std::string bootstrap_url() const { return bootstrap_->url(); }
  // Opens the store as a program would: as another compute server.
  std::unique_ptr<Store> OpenStore(uint32_t lock_timeout_ms = 10'000,
                                   uint64_t cache_bytes = uint64_t{16} << 20);
  // Ends a memory server as if its process had died.
  void Kill(ServerId server) { memory_[ToInteger(server)].reset(); }
  // Checks the tree and its locks.
  CheckReport Check();
  // Likewise, at once. For tests where no upkeep merges and locks stay held.
  CheckReport CheckOnce();

 private:
  SimNetwork* const network_;
  // With shared memory only:
  std::filesystem::path directory_;
  std::unique_ptr<Bootstrap> bootstrap_;
  std::vector<std::unique_ptr<EmbeddedMemory>> memory_;
  StoreRecord record_;
};

struct ClientOptions {
  uint32_t lock_timeout_ms = 10'000;
  uint64_t cache_bytes = uint64_t{16} << 20;
};

// A compute server over shared memory, with its own lease and cache.
class TestClient : StoreEvents {
 public:
  TestClient(const TestCluster& cluster, const ClientOptions& options = {});
  ~TestClient();

  StoreState& shared() { return *shared_; }
  // A session whose endpoint follows `plan`.
  std::unique_ptr<OpenSession> NewSession(FaultPlan& plan);
  // Faults of the store's own endpoint, over which orphaned locks are settled.
  FaultPlan& settler_plan() { return settler_plan_; }
  // A session over a plain endpoint.
  std::unique_ptr<OpenSession> NewSession();

  // Raw access to remote memory, for tests that damage it.
  std::vector<std::byte> Read(ServerId server, uint64_t offset, uint32_t bytes,
                              Space space = Space::kRegion);
  void Write(ServerId server, uint64_t offset, std::span<const std::byte> bytes);
  // Returns the old word.
  uint64_t CompareSwap(ServerId server, uint64_t offset, uint64_t compare, uint64_t swap,
                       Space space = Space::kLockTable);
  RootWord Root();
  InternalNode Internal(RemotePtr pointer);
  // Removes the second child of `parent`: only its left neighbour leads to it from then on.
  InternalNode::Child RemoveDownlink(RemotePtr parent);
  // The leaf whose range contains `key`, found by walking, where it starts, and its bytes.
  struct FoundLeaf {
    RemotePtr leaf;
    Key low;
  };
  FoundLeaf FindLeaf(KeyView key);
  RemotePtr LeafOf(KeyView key) { return FindLeaf(key).leaf; }
  std::vector<std::byte> LeafBytes(RemotePtr leaf);
  uint64_t LockSlot(RemotePtr node);
  Lease LeaseWith(ServerId server) const { return shared_->servers.Find(server)->lease; }

  // Called when a lock is orphaned while no other one is.
  std::function<void()> on_first_orphan = [] {};

 private:
  void OnFirstOrphan() override { on_first_orphan(); }
  VerbStatus Run(Batch& batch);

  FaultPlan settler_plan_;
  std::unique_ptr<ComputePort> port_;
  std::unique_ptr<Endpoint> settler_;
  std::unique_ptr<StoreState> shared_;
  std::unique_ptr<Endpoint> endpoint_;
};

// `bytes` bytes that sort as the number does.
std::string NumberKey(uint64_t number, size_t bytes = 8);

}  // namespace gossamer
