// A sweeper, as an oracle: what a compute server abandoned belongs to somebody else (rule U4).
//
// Once a lease has ended with its memory server, and with all others whatever lease that compute server had with them
// then, nothing of it can be on its way any more. What was granted under that lease and what the tree does not lead to at
// that moment is swept: it is overwritten, at once and again at the end of the run, as it would be by its next
// owner. A compute server that goes on to use it shows a tree that is damaged.
//
// No real sweeper: it looks into all memory at one moment. Cost: a look at what was granted every few hundred steps of
// the run; a walk of the tree for each lease that ends. Thread-safety: none.
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
#include "proto/region.h"

namespace gossamer::simulator {

class Sweeper {
 public:
  // `memory`, by server id; null: the server has died, and nothing is swept any more. All outlive the sweeper.
  Sweeper(SimNetwork& network, const std::vector<std::unique_ptr<EmbeddedMemory>>& memory,
          const StoreParameters& parameters)
      : network_(network), memory_(memory), parameters_(parameters) {}

  // After a step of the run: now and then, looks for leases that have ended, and sweeps what can be.
  void Look();
  // At the end of the run, when nothing is under way: overwrites all that was swept. Returns how many bytes that are.
  uint64_t Overwrite();

 private:
  // A lease, by server and compute id with incarnation.
  using LeaseKey = std::pair<size_t, uint64_t>;
  // Granules of 64 bytes, as value blocks are aligned, of each server.
  using Granules = std::vector<std::vector<bool>>;

  void LookNow();
  // Which memory the tree leads to; nothing if some node is just being written.
  std::optional<Granules> FindReached();
  void Sweep(size_t server, const GrantedExtent& extent, const Granules& reached);

  SimNetwork& network_;
  const std::vector<std::unique_ptr<EmbeddedMemory>>& memory_;
  const StoreParameters& parameters_;
  uint64_t steps_ = 0;
  SimNetwork::Clock::time_point looked_at_{};
  // Leases that have ended, and the leases that must end before they are swept.
  std::map<LeaseKey, std::set<LeaseKey>> ended_;
  std::set<LeaseKey> swept_leases_;
  Granules swept_;
};

}  // namespace gossamer::simulator
