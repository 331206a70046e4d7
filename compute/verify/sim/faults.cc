#include "compute/verify/sim/faults.h"

#include "compute/verify/sim/names.h"

namespace gossamer::simulator {

Result<FaultSet> ParseFaults(std::string_view text) {
  BOOST_OUTCOME_TRY(set, ParseNames(text, kFaultNames, "--faults", "fault"));
  FaultSet faults;
  for (size_t i = 0; i < kFaults; ++i) {
    if ((set >> i & 1) != 0) faults.Add(static_cast<Fault>(i));
  }
  return faults;
}

std::string ToString(FaultSet faults) {
  uint32_t set = 0;
  for (size_t i = 0; i < kFaults; ++i) {
    if (faults.has(static_cast<Fault>(i))) set |= 1u << i;
  }
  return NamesOf(set, kFaultNames);
}

}  // namespace gossamer::simulator
