// A sweeper as an oracle: memory that a compute server abandoned belongs to others (rule U4).
//
// Once a lease has ended with its memory server, and so have all leases that its compute server had
// with other servers at that time, no verb of it can be in flight. Memory granted under that lease
// and not reachable from the tree at that moment is swept. The sweeper overwrites it at once and
// again at the end of the run, as its next owner would. If the compute server still uses it, the
// tree is damaged.
//
// This is no real sweeper: it reads all memory at one moment.
//
// Thread-safety: none.
// Cost: a look at the granted memory every few hundred steps of the run; a walk of the tree for
// each lease that ends.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/embedded_memory.h"
#include "common/fabric/sim/sim.h"
#include "compute/verify/sim/reached_memory.h"
#include "proto/region.h"

namespace gossamer::simulator {

class Sweeper {
 public:
  // `memory`: by server id; null: the server has died, and nothing is swept any more. All arguments
  // must outlive the sweeper.
  Sweeper(SimNetwork& network, const std::vector<std::unique_ptr<EmbeddedMemory>>& memory,
          const StoreParameters& parameters)
      : network_(network), memory_(memory), parameters_(parameters) {}

  // Call after each step of the run. Now and then looks for ended leases, and sweeps what it can.
  void Look();
  // Call at the end of the run, when nothing is under way. Overwrites all swept memory again.
  // Returns its size in bytes.
  uint64_t Overwrite();

 private:
  // A lease: server, and compute id with incarnation.
  using LeaseKey = std::pair<size_t, uint64_t>;
  using Granules = ReachedMemory::Granules;

  void LookNow();
  // What somebody gave back to its memory server is not the sweeper's any more.
  void LeaveGivenBack();
  // The memory reachable from the tree; nullopt if a node is being written.
  std::optional<Granules> FindReached();
  void Sweep(size_t server, const GrantedExtent& extent, const Granules& reached);

  SimNetwork& network_;
  const std::vector<std::unique_ptr<EmbeddedMemory>>& memory_;
  const StoreParameters& parameters_;
  uint64_t steps_ = 0;
  SimNetwork::Clock::time_point looked_at_{};
  // Ended leases, and for each the leases that must end before it is swept.
  std::map<LeaseKey, std::set<LeaseKey>> ended_;
  std::set<LeaseKey> swept_leases_;
  Granules swept_;
};

}  // namespace gossamer::simulator
