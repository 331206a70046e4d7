// Tells a listener what happens on a queue pair, for debugging one run.
//
// Cost: texts are made only if there is a listener; ask `is_told` first.
// Thread-safety: none.
#pragma once

#include <string_view>

#include "common/fabric/work_request.h"

namespace gossamer::sim {

class Network;
class QueuePair;
struct VerbInFlight;

class QueuePairStory {
 public:
  // Both must outlive the story.
  QueuePairStory(Network& network, QueuePair& queue_pair)
      : network_(network), queue_pair_(queue_pair) {}

  // Whether there is a listener.
  bool is_told() const;
  void Tell(std::string_view what) const;
  void Tell(std::string_view what, const VerbInFlight& operation) const;
  void TellPosted(const Batch& batch) const;

 private:
  Network& network_;
  QueuePair& queue_pair_;
};

}  // namespace gossamer::sim
