// MergeQueue: nodes of the tree that may be worth a merge, as operations of this compute server
// note them.
//
// An operation does not merge by itself: it notes the node, and the store's upkeep merges in the
// background.
//
// Thread-safety: thread-safe. Cost: a mutex and at most one allocation for each note.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>

#include "compute/session/store_events.h"
#include "proto/key.h"

namespace gossamer {

class MergeQueue {
 public:
  struct Request {
    // kSparse: the node has few entries. kUnfinished: its right sibling may be frozen.
    enum class Kind : uint8_t { kSparse, kUnfinished };

    uint32_t level = 0;
    Key key;  // in the node's range
    Kind kind = Kind::kSparse;
    uint32_t tries = 0;  // so far

    friend bool operator<(const Request& a, const Request& b) {
      if (a.level != b.level) return a.level < b.level;
      if (a.key != b.key) return a.key.view() < b.key.view();
      return a.kind < b.kind;
    }
  };

  explicit MergeQueue(StoreEvents& events) : events_(events) {}

  // Ignored if as much is noted as there is room for: the next operation on the node notes it
  // again.
  // Returns whether much is noted: then the caller's session should take some of it, lest memory
  // runs out.
  bool Note(const Request& request) {
    {
      const std::lock_guard lock(mutex_);
      const bool was_empty = requests_.empty();
      if (requests_.size() < kMostRequests) requests_.insert(request);
      if (!was_empty) return requests_.size() >= kMany;
    }
    events_.OnFirstMerge();
    return false;
  }
  // Goes round all levels and keys in their order: neighbours are merged one after the other, and
  // what is noted again is taken again after all others.
  std::optional<Request> Take() {
    const std::lock_guard lock(mutex_);
    if (requests_.empty()) return std::nullopt;
    auto next = requests_.upper_bound(last_);
    if (next == requests_.end()) next = requests_.begin();
    last_ = *next;
    requests_.erase(next);
    return last_;
  }

 private:
  static constexpr size_t kMany = 1024;
  static constexpr size_t kMostRequests = 65'536;

  StoreEvents& events_;
  std::mutex mutex_;
  std::set<Request> requests_;
  Request last_;
};

}  // namespace gossamer
