// When which event hits a run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/random.h"
#include "compute/verify/sim/plan.h"

namespace gossamer::simulator {

// An event that hits a client, a memory server or the store's record.
struct Blow {
  enum class Kind : uint8_t {
    kKill,
    kPause,
    kLeave,
    kDeath,
    kSuccession,
    kStall,
    kJoin,
    kRecord,
    kReturn
  };

  uint64_t at_operation = 0;  // when so many have begun, and
  uint64_t steps_later = 0;   // so many steps after that
  Kind kind = Kind::kKill;
};

class BlowSchedule {
 public:
  // Draws all blows of `plan`.
  void Draw(const Plan& plan, Random& random);
  // The next blow to be taken, before all drawn ones.
  void Add(const Blow& blow) { blows_.push_back(blow); }
  // Call in each step until it returns nullopt: no further blow is due in this step. `begun`:
  // operations that have begun.
  std::optional<Blow::Kind> Take(uint64_t begun);

 private:
  std::vector<Blow> blows_;  // the next one last
};

}  // namespace gossamer::simulator
