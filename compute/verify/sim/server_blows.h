// What hits the memory servers of a run: one dies, another takes its address, stops, is slow,
// joins, or is killed and comes back.
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/embedded_memory.h"
#include "common/random.h"
#include "compute/verify/sim/blow_schedule.h"
#include "compute/verify/sim/client.h"
#include "compute/verify/sim/returns.h"
#include "compute/verify/sim/successor.h"

namespace gossamer::simulator {

class ServerBlows {
 public:
  // `options`: of the run's memory servers. `memory`: by server id; a server that dies becomes
  // null. `membership`, `random` and `schedule` are those of the run. All arguments must outlive
  // this object.
  ServerBlows(Scene& scene, const EmbeddedMemoryOptions& options, Membership::Memory& memory,
              Membership& membership, Random& random, BlowSchedule& schedule)
      : scene_(scene),
        options_(options),
        memory_(memory),
        membership_(membership),
        random_(random),
        schedule_(schedule),
        returns_(scene, options, memory, membership) {}

  // Returns: false if the blow is for a client.
  bool Strike(Blow::Kind kind);
  // Tells the verdict what clients of the run changed in the stores of successors. Blocks.
  void CheckSuccessors();
  uint64_t dead_servers() const { return dead_servers_; }
  const Returns& returns() const { return returns_; }

 private:
  // One of the servers from `first` on. Returns: null if the drawn server is dead.
  EmbeddedMemory* PickServer(size_t first, size_t& number);
  void End();
  void StartSuccessor();
  void StopOrSlow();

  Scene& scene_;
  const EmbeddedMemoryOptions& options_;
  Membership::Memory& memory_;
  Membership& membership_;
  Random& random_;
  BlowSchedule& schedule_;
  Returns returns_;
  uint64_t dead_servers_ = 0;
  std::vector<std::unique_ptr<Successor>> successors_;
  std::vector<std::string> without_successor_;  // addresses
};

}  // namespace gossamer::simulator
