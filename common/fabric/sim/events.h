// The events of a simulated network and their times.
//
// Each object with a future event derives from `Event` and waits for one thing at a time. A binary
// heap orders events by time, then by the order of arming, so that a run does not depend on
// addresses. `Pop` skips an entry whose object was armed again or disarmed; pools never return
// memory, so the object of a stale entry stays readable.
// Thread-safety: none. Cost: the heap allocates while it grows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

namespace gossamer::sim {

using Nanoseconds = int64_t;  // of virtual time

enum class EventKind : uint8_t {
  kTransitArrives,   // a batch arrives at the memory server
  kTransitDelivers,  // its answer arrives at the endpoint
  kOperation,        // a verb begins, continues or ends
  kCallArrives,
  kCallDelivers,
  kWake,           // of an endpoint
  kNotice,         // an endpoint learns that a queue pair is broken
  kClient,         // memory servers observe a death
  kServer,         // a memory server's control thread reads its clock
  kFarewell,       // a memory server learns that the endpoint of a queue pair is gone
  kTransitLeaves,  // the posting thread gets to a batch
  kDriver,         // what the driver of the network wants done
};

struct Event {
  explicit Event(EventKind event_kind) : kind(event_kind) {}

  EventKind kind;
  // True if no client waits for its effect: it does not keep the network running.
  bool background = false;
  uint64_t armed = 0;  // its entry's sequence number; 0: not armed
};

class EventQueue {
 public:
  // Moves `event` to time `at`.
  void Arm(Event& event, Nanoseconds at) {
    Disarm(event);
    event.armed = ++sequence_;
    if (!event.background) ++foreground_;
    heap_.push_back({at, sequence_, &event});
    std::push_heap(heap_.begin(), heap_.end());
  }
  void Disarm(Event& event) {
    if (event.armed == 0) return;
    event.armed = 0;
    if (!event.background) --foreground_;
  }
  // Returns the next event and sets `at` to its time; null if there is none.
  Event* Pop(Nanoseconds& at) {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const Entry top = heap_.back();
      heap_.pop_back();
      if (top.event->armed != top.sequence) continue;
      Disarm(*top.event);
      at = top.at;
      return top.event;
    }
    return nullptr;
  }
  bool has_foreground() const { return foreground_ != 0; }

 private:
  struct Entry {
    Nanoseconds at;
    uint64_t sequence;
    Event* event;
    // The heap's order: a later entry is less.
    bool operator<(const Entry& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };

  std::vector<Entry> heap_;
  uint64_t sequence_ = 0;
  uint64_t foreground_ = 0;
};

// Recycles objects. Their memory, and that of their members, stays until the pool dies.
template <typename T>
class Pool {
 public:
  T& Take() {
    if (free_.empty()) return storage_.emplace_back();
    T& item = *free_.back();
    free_.pop_back();
    return item;
  }
  void Give(T& item) { free_.push_back(&item); }

 private:
  std::deque<T> storage_;
  std::vector<T*> free_;
};

}  // namespace gossamer::sim
