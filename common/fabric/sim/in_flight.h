// What is in flight in a simulated network: verbs, their batches, and control calls.
//
// All objects come from the network's pools. A verb belongs to its queue pair until it has taken
// effect or was dropped; a batch or call, until the endpoint has its completion.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/fabric/sim/events.h"
#include "common/fabric/work_request.h"

namespace gossamer::sim {

class QueuePair;

// A batch between `Post` and completion.
struct Transit final : Event {
  Transit() : Event(EventKind::kTransitArrives) {}

  QueuePair* queue_pair = nullptr;
  Transit* next = nullptr;  // posted behind it
  Batch* batch = nullptr;
  Nanoseconds leaves_at = 0;  // when its thread gets to posting it
  uint32_t valid_verbs = 0;   // those before the first that the server refuses
  uint32_t unfinished = 0;    // of the valid ones
  bool refused = false;       // has a verb that breaks the queue pair
};

// A verb that has arrived at its memory server: a copy. local.data is null of a READ or an atomic
// whose result is not needed any more.
struct VerbInFlight final : Event, Verb {
  VerbInFlight() : Event(EventKind::kOperation) {}

  enum class State : uint8_t {
    kWaiting,    // for verbs ordered before it
    kOnItsWay,   // its time is set
    kQueued,     // an atomic, behind others of its slot
    kActive,     // a READ or WRITE that takes effect in parts
    kHoldsWord,  // an atomic that has read its word and will write it
  };

  QueuePair* queue_pair = nullptr;
  VerbInFlight* next = nullptr;  // on its queue pair, in the order posted
  VerbInFlight* previous = nullptr;
  Transit* transit = nullptr;  // null once no batch waits for it
  Verb* posted = nullptr;      // likewise
  State state = State::kWaiting;
  Nanoseconds ready_at = 0;        // when the memory server's NIC has received it
  Nanoseconds ends_at = 0;         // of an active one, or one that holds its word
  uint64_t old_word = 0;           // of one that holds its word
  std::vector<std::byte> payload;  // of a WRITE whose client does not wait any more

  // For tear.h.
  std::byte* remote = nullptr;
  size_t active_index = 0;
  uint32_t mixes_left = 0;
  bool holds_word = false;  // an atomic: reads the word, and writes it back at ends_at
  bool is_split = false;
  bool is_clean = false;       // a WRITE that each READ sees done or not done, never torn
  uint32_t late_first = 0;     // late interval, mostly applied at the end: from this byte
  uint32_t late_last = 0;      // up to and excluding this byte
  std::vector<uint64_t> done;  // once it is split: a bit for each byte
};

// A control call and its answer.
struct CallInFlight final : Event {
  CallInFlight() : Event(EventKind::kCallArrives) {}

  QueuePair* queue_pair = nullptr;
  CallInFlight* next = nullptr;
  ControlCall* call = nullptr;                      // null once no caller waits for it
  std::array<std::byte, kMaxControlBytes> bytes{};  // the request; then the reply
  uint32_t size = 0;
  bool is_lost = false;  // the request or its answer is lost
};

}  // namespace gossamer::sim
