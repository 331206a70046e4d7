#include "common/fabric/sim/queue_pair_story.h"

#include <array>
#include <charconv>
#include <string>

#include "common/fabric/sim/endpoint.h"
#include "common/fabric/sim/network.h"
#include "common/fabric/sim/operation.h"
#include "common/fabric/sim/queue_pair.h"

namespace gossamer::sim {
namespace {

std::string Hex(uint64_t value) {
  std::array<char, 16> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, 16).ptr};
}

// "CAS locks+8 0 to 1000001000040", "WRITE region+4096 108 bytes".
template <typename Described>
std::string TextOf(const Described& verb, uint64_t offset) {
  const VerbTraits& traits = TraitsOf(verb.opcode);
  std::string text = std::string(traits.name) +
                     (verb.space == Space::kRegion ? " region+" : " locks+") +
                     std::to_string(offset) + " ";
  if (traits.verb_class != VerbClass::kAtomic) {
    return text + std::to_string(verb.length) + " bytes" + (verb.fence ? ", fenced" : "");
  }
  if (traits.is_conditional) text += Hex(verb.compare) + " to ";
  return text + Hex(verb.swap_or_add);
}

}  // namespace

bool QueuePairStory::is_told() const { return static_cast<bool>(network_.tell); }

void QueuePairStory::Tell(std::string_view what) const {
  const SimEndpoint* const endpoint = queue_pair_.endpoint();
  network_.tell("client " + std::to_string(queue_pair_.client().uuid) +
                (endpoint == nullptr ? "" : " endpoint " + std::to_string(endpoint->id())) +
                " server " + std::to_string(network_.NumberOf(queue_pair_.server())) + ": " +
                std::string(what));
}

void QueuePairStory::Tell(std::string_view what, const Operation& operation) const {
  std::string text = TextOf(operation, operation.offset) + " " + std::string(what);
  const bool has_read = operation.is_atomic() && operation.state != Operation::State::kWaiting &&
                        operation.state != Operation::State::kOnItsWay;
  if (has_read) text += ", was " + Hex(operation.old_value);
  Tell(text);
}

void QueuePairStory::TellPosted(const Batch& batch) const {
  std::string text = "posts";
  for (const Verb& verb : batch.verbs()) text += " [" + TextOf(verb, verb.remote_offset) + "]";
  Tell(text);
}

}  // namespace gossamer::sim
