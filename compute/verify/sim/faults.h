// The faults of a run: `--faults=none|all|LIST`.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"

namespace gossamer::simulator {

enum class Fault : uint8_t {
  kTear,       // a READ beside a WRITE mixes old and new bytes
  kDelay,      // verbs take time
  kReorder,    // operations that the contract leaves unordered take effect in any order
  kWriteBack,  // a failed CAS writes back the value it found
  kBreak,      // queue pairs break; late packets land until their queue pair is destroyed
  kPartition,  // links are down for a while, possibly longer than a lease
  kCut,        // clients die between two WRITEs of a batch
  kKill,       // clients die at any time
  kPause,      // clients stop, possibly longer than their lease
  kExhaust,    // memory servers are too small
  kReopen,     // live clients close and reopen sessions or the store
  kRestart,    // memory servers die, and others may take their addresses
  kStall,      // memory servers stop for a while or become slow
  kCalls,      // control calls are lost while their queue pair lives
  kJoin,       // memory servers join later, some behind an MTU that is too low
  kRecord,     // the store's record is lost, overwritten, or read late
  kReturn,     // memory servers are killed, and come back with their memory
};
inline constexpr size_t kFaults = 17;
inline constexpr std::array<std::string_view, kFaults> kFaultNames = {
    "tear",    "delay",  "reorder", "write_back", "break", "partition", "cut",    "kill",  "pause",
    "exhaust", "reopen", "restart", "stall",      "calls", "join",      "record", "return"};

// A set of faults.
// Thread-safety: none.
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

// Parses "none", "all", or a comma-separated list.
// Errors: InvalidArgument, naming the first word that is no fault.
Result<FaultSet> ParseFaults(std::string_view text);
// The text that ParseFaults reads as `faults`.
std::string ToString(FaultSet faults);

}  // namespace gossamer::simulator
