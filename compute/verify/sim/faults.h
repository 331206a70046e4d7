// Which faults a run has: `--faults=none|all|LIST`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace gossamer::simulator {

enum class Fault : uint8_t {
  kTear,       // READs that run beside a WRITE mix old and new bytes
  kDelay,      // verbs take their time
  kReorder,    // what the contract leaves unordered takes effect in any order
  kWriteBack,  // a failed CAS writes back what it found
  kBreak,      // queue pairs break; late packets land until they are destroyed
  kPartition,  // links are down for a while, also for longer than a lease
  kCut,        // clients die between two WRITEs of a batch
  kKill,       // clients die at any time
  kPause,      // clients stop, also for longer than their lease
  kExhaust,    // memory servers are too small
  kReopen,     // living clients close sessions, or the store, and open them again
  kRestart,    // memory servers die, and others may come to their addresses
  kStall,      // memory servers stop for a while, or go slow
  kCalls,      // control calls are lost while their queue pair lives
  kJoin,       // memory servers join later, some behind an MTU that is too low
  kRecord,     // the store's record is lost, overwritten, read late
};
inline constexpr size_t kFaults = 16;
inline constexpr std::array<std::string_view, kFaults> kFaultNames = {
    "tear",  "delay",   "reorder", "write_back", "break", "partition", "cut",  "kill",
    "pause", "exhaust", "reopen",  "restart",    "stall", "calls",     "join", "record"};

// A set of faults. Thread-safety: none.
class FaultSet {
 public:
  static constexpr FaultSet All() { return FaultSet((1u << kFaults) - 1); }

  constexpr FaultSet() = default;
  constexpr bool has(Fault fault) const { return (bits_ >> static_cast<unsigned>(fault) & 1) != 0; }
  constexpr void Add(Fault fault) { bits_ |= 1u << static_cast<unsigned>(fault); }
  friend bool operator==(const FaultSet&, const FaultSet&) = default;

 private:
  constexpr explicit FaultSet(uint32_t bits) : bits_(bits) {}

  uint32_t bits_ = 0;
};

// "none", "all", or names with commas between. InvalidArgument names the word that is no fault.
Result<FaultSet> ParseFaults(std::string_view text);
// What ParseFaults reads as that set.
std::string ToString(FaultSet faults);

}  // namespace gossamer::simulator
