#include "common/fabric/sim/queue_pair_story.h"

#include <fmt/core.h>

#include <string>

#include "common/fabric/sim/endpoint.h"
#include "common/fabric/sim/in_flight.h"
#include "common/fabric/sim/network.h"
#include "common/fabric/sim/queue_pair.h"

namespace gossamer::sim {
namespace {

// "CAS locks+8 0 to 1000001000040", "WRITE region+4096 108 bytes".
template <typename Described>
std::string TextOf(const Described& verb, uint64_t offset) {
  const VerbTraits& traits = TraitsOf(verb.opcode);
  const std::string text = fmt::format("{} {}+{}", traits.name,
                                       verb.space == Space::kRegion ? "region" : "locks", offset);
  if (traits.verb_class != VerbClass::kAtomic) {
    return fmt::format("{} {} bytes{}", text, verb.length, verb.fence ? ", fenced" : "");
  }
  if (!traits.is_conditional) return fmt::format("{} {:x}", text, verb.swap_or_add);
  return fmt::format("{} {:x} to {:x}", text, verb.compare, verb.swap_or_add);
}

}  // namespace

bool QueuePairStory::is_told() const { return static_cast<bool>(network_.tell); }

void QueuePairStory::Tell(std::string_view what) const {
  const SimEndpoint* const endpoint = queue_pair_.endpoint();
  network_.tell(fmt::format("client {}{} server {}: {}", queue_pair_.client().uuid,
                            endpoint == nullptr ? "" : fmt::format(" endpoint {}", endpoint->id()),
                            network_.NumberOf(queue_pair_.server()), what));
}

void QueuePairStory::Tell(std::string_view what, const VerbInFlight& operation) const {
  std::string text = fmt::format("{} {}", TextOf(operation, operation.offset), what);
  const bool has_read = operation.is_atomic() && operation.state != VerbInFlight::State::kWaiting &&
                        operation.state != VerbInFlight::State::kOnItsWay;
  if (has_read) text += fmt::format(", was {:x}", operation.old_value);
  Tell(text);
}

void QueuePairStory::TellPosted(const Batch& batch) const {
  std::string text = "posts";
  for (const Verb& verb : batch.verbs()) text += " [" + TextOf(verb, verb.remote_offset) + "]";
  Tell(text);
}

}  // namespace gossamer::sim
