// SessionFigures: what one session counts. SessionCounts: the figures of all sessions of a store,
// summed on request.
//
// Invariants: sums of counters never fall, as the counts of a session that ends are kept. No
// session waits for a reader, but when it begins and ends.
// Thread-safety: SessionFigures: one thread counts, any reads. SessionCounts: all calls from any
// thread.
// Cost: some 100 ns for each session and sum; some µs for each session and list of leaves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "compute/counters/leaf_sketch.h"
#include "compute/counters/live_counters.h"

namespace gossamer {

struct SessionFigures {
  LiveCounters counters;
  LeafSketch leaves;
};

class SessionCounts {
 public:
  // Until Remove, `figures` must live.
  void Add(const SessionFigures& figures) {
    const std::lock_guard guard(mutex_);
    sessions_.push_back(&figures);
  }
  void Remove(const SessionFigures& figures) {
    const std::lock_guard guard(mutex_);
    ended_ += figures.counters.Read();
    std::erase(sessions_, &figures);
  }

  Counters Total() const {
    const std::lock_guard guard(mutex_);
    Counters total = ended_;
    for (const SessionFigures* const session : sessions_) total += session->counters.Read();
    return total;
  }
  // The leaves that open sessions use most, those first; at most `most`.
  std::vector<LeafSketch::Leaf> HotLeaves(size_t most) const {
    std::map<RemotePtr, LeafSketch::Leaf> sums;
    {
      const std::lock_guard guard(mutex_);
      for (const SessionFigures* const session : sessions_) {
        for (LeafSketch::Leaf& one : session->leaves.Read()) {
          const auto [place, is_new] = sums.try_emplace(one.leaf, one);
          if (is_new) continue;
          place->second.operations += one.operations;
          place->second.key = std::min(place->second.key, one.key);
        }
      }
    }
    std::vector<LeafSketch::Leaf> leaves;
    for (auto& [leaf, one] : sums) leaves.push_back(std::move(one));
    std::ranges::sort(leaves, std::greater(), &LeafSketch::Leaf::operations);
    leaves.resize(std::min(leaves.size(), most));
    return leaves;
  }
  size_t sessions() const {
    const std::lock_guard guard(mutex_);
    return sessions_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<const SessionFigures*> sessions_;
  Counters ended_;
};

}  // namespace gossamer
