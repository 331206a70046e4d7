// Gathering: how the processes of one benchmark find each other by a roster (roster.h), before they
// meet at its barrier (barrier.h).
//
// Each adds itself by compare-and-swap. When all are there, each writes that it knows, and when all
// have, the roster is sealed. Until then a dead member is removed, so that another may come.
//
// A member on the machine of the process that watches it is dead if its process is gone. One on
// another machine is dead if its beat has not changed for `silence`, by the clock of the watching
// process: no clocks of machines are compared. A roster of the dead is replaced. So a name that a
// crash has left can be used again: at once on the machine of the crash, elsewhere after `silence`.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "common/bootstrap/bootstrap.h"
#include "common/random.h"
#include "common/status.h"
#include "compute/bench/roster.h"

namespace gossamer::bench {

inline constexpr uint32_t kMaxProcesses = 128;

struct BarrierOptions {
  std::string name;  // as that of a store
  uint32_t processes = 1;
  std::map<std::string, std::string> settings = {};  // the flags that all must have alike, by name
  std::chrono::milliseconds beat{1'000};
  std::chrono::milliseconds silence{10'000};
  std::function<bool()> should_stop = {};            // polled while waiting
  std::function<void(const std::string&)> say = {};  // called after 2 s of waiting, and then rarely
};

// The note of a benchmark's roster.
std::string RosterNote(const BarrierOptions& options);

// Whether members live. Thread-safety: none.
class Pulses {
 public:
  enum class Pulse : uint8_t {
    kBeats,    // it lives
    kGone,     // its process has ended
    kSilent,   // likely ended
    kUnknown,  // on another machine, and not watched for long enough
  };

  explicit Pulses(std::chrono::milliseconds silence) : silence_(silence) {}

  // Call it again and again.
  Pulse Of(const RosterMember& member);
  bool IsDead(const RosterMember& member) {
    const Pulse pulse = Of(member);
    return pulse == Pulse::kGone || pulse == Pulse::kSilent;
  }

 private:
  struct Seen {
    uint64_t beat = 0;
    std::chrono::steady_clock::time_point since;
    bool has_changed = false;
  };

  const std::chrono::milliseconds silence_;
  std::map<uint64_t, Seen> seen_;  // by incarnation
};

// One wait for other processes: pauses between looks, and words for the user.
class Waiting {
 public:
  explicit Waiting(const BarrierOptions& options);

  // Returns after about `interval`. Errors: Contended if the user has stopped the program.
  Status Pause(std::chrono::milliseconds interval, uint64_t missing);

 private:
  const BarrierOptions& options_;
  std::chrono::steady_clock::time_point next_words_;
  uint64_t last_missing_ = 0;
  Random random_;
};

// Joins the roster, waits until it is sealed, and returns it. `self` is kept as the roster has it.
// Errors:
//   - InvalidArgument: the others have another value of a setting (the message names the flag), or
//     are all there already;
//   - Corruption: the text is no roster;
//   - those of the bootstrap and of Waiting::Pause. This process is in no roster then.
Result<Roster> Gather(Bootstrap& bootstrap, const BarrierOptions& options, RosterMember& self);

}  // namespace gossamer::bench
