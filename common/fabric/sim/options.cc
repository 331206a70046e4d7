#include "common/fabric/sim/options.h"

#include <array>
#include <utility>

namespace gossamer {
namespace {

using Fault = std::pair<std::string_view, bool SimFaults::*>;
constexpr std::array<Fault, 10> kFaults = {{{"tear", &SimFaults::tear},
                                            {"delay", &SimFaults::delay},
                                            {"reorder", &SimFaults::reorder},
                                            {"write_back", &SimFaults::write_back},
                                            {"break", &SimFaults::break_queue_pairs},
                                            {"partition", &SimFaults::partition},
                                            {"calls", &SimFaults::lose_calls},
                                            {"cut", &SimFaults::cut},
                                            {"kill", &SimFaults::kill},
                                            {"pause", &SimFaults::pause}}};

}  // namespace

Result<SimFaults> ParseSimFaults(std::string_view list) {
  SimFaults faults;
  if (list == "none") return faults;
  for (bool more = true; more;) {
    const size_t comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) list.remove_prefix(comma + 1);
    bool found = name == "all";
    for (const auto& [fault_name, member] : kFaults) {
      if (name != "all" && name != fault_name) continue;
      faults.*member = true;
      found = true;
    }
    if (found) continue;
    return MakeError(Code::kInvalidArgument,
                     "fault '" + std::string(name) +
                         "': give none, all, or some of tear, delay, reorder, write_back, break, "
                         "partition, calls, cut, kill and pause with commas between them");
  }
  return faults;
}

std::string SimFaultsText(const SimFaults& faults) {
  std::string text;
  for (const auto& [name, member] : kFaults) {
    if (faults.*member) text += (text.empty() ? "" : ",") + std::string(name);
  }
  return text.empty() ? "none" : text;
}

}  // namespace gossamer
