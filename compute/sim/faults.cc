#include "compute/sim/faults.h"

#include <algorithm>

namespace gossamer::simulator {

Result<FaultSet> ParseFaults(std::string_view text) {
  if (text == "none") return FaultSet();
  if (text == "all") return FaultSet::All();
  FaultSet faults;
  while (true) {
    const std::string_view word = text.substr(0, text.find(','));
    const auto* const name = std::find(kFaultNames.begin(), kFaultNames.end(), word);
    if (name == kFaultNames.end()) {
      std::string names;
      for (const std::string_view known : kFaultNames) names += ", " + std::string(known);
      return MakeError(Code::kInvalidArgument, "--faults: '" + std::string(word) +
                                                   "' is no fault; give none, all, or some of" +
                                                   names.substr(1));
    }
    faults.Add(static_cast<Fault>(name - kFaultNames.begin()));
    if (word.size() == text.size()) return faults;
    text.remove_prefix(word.size() + 1);
  }
}

std::string ToString(FaultSet faults) {
  if (faults == FaultSet()) return "none";
  if (faults == FaultSet::All()) return "all";
  std::string text;
  for (size_t i = 0; i < kFaults; ++i) {
    if (!faults.has(static_cast<Fault>(i))) continue;
    if (!text.empty()) text += ',';
    text += kFaultNames[i];
  }
  return text;
}

}  // namespace gossamer::simulator
