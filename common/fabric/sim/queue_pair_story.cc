// What happens on a queue pair, told to a listener for debugging one run. Texts are made only if
// there is one: ask `is_told` first.
#include <fmt/core.h>

#include <string>

#include "common/fabric/sim/endpoint.h"
#include "common/fabric/sim/in_flight.h"
#include "common/fabric/sim/queue_pair.h"
#include "common/fabric/sim/sim.h"

namespace gossamer::sim {
namespace {

// "CAS locks+8 0 to 1000001000040", "WRITE region+4096 108 bytes".
std::string TextOf(const Verb& verb) {
  const VerbTraits& traits = TraitsOf(verb.opcode);
  const std::string text =
      fmt::format("{} {}+{}", traits.name, verb.space == Space::kRegion ? "region" : "locks",
                  verb.remote_offset);
  if (traits.verb_class != VerbClass::kAtomic) {
    return fmt::format("{} {} bytes{}", text, verb.length, verb.fence ? ", fenced" : "");
  }
  if (!traits.is_conditional) return fmt::format("{} {:x}", text, verb.swap_or_add);
  return fmt::format("{} {:x} to {:x}", text, verb.compare, verb.swap_or_add);
}

}  // namespace

bool QueuePair::is_told() const { return static_cast<bool>(network_.tell); }

void QueuePair::Tell(std::string_view what) const {
  network_.tell(
      fmt::format("client {}{} server {}: {}", client_.uuid,
                  endpoint_ == nullptr ? "" : fmt::format(" endpoint {}", endpoint_->id()),
                  server_.number(), what));
}

void QueuePair::Tell(std::string_view what, const VerbInFlight& operation) const {
  std::string text = fmt::format("{} {}", TextOf(operation), what);
  const bool has_read = operation.is_atomic() && operation.state != VerbInFlight::State::kWaiting &&
                        operation.state != VerbInFlight::State::kOnItsWay;
  if (has_read) text += fmt::format(", was {:x}", operation.old_word);
  Tell(text);
}

void QueuePair::TellPosted(const Batch& batch) const {
  std::string text = "posts";
  for (const Verb& verb : batch.verbs()) text += " [" + TextOf(verb) + "]";
  Tell(text);
}

}  // namespace gossamer::sim
