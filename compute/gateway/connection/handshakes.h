// Handshakes: the TLS handshakes of a worker's clients.
//
// They share the worker's thread with clients that are connected already: so only a few are brought
// on in each round of its loop. A handshake that does not end gives back its client's place in
// time.
//
// Thread-safety: none; it belongs to one worker. Cost: 24 bytes for each connection of the last
// kPatience.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "compute/gateway/connection/client.h"

namespace gossamer::gateway {

class Handshakes {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kPatience{10};
  static constexpr int kMostInRound = 16;

  void Begin(const Client& client) {
    begun_.push_back({Clock::now() + kPatience, client.number(), client.fd()});
  }
  void BeginRound() { steps_ = 0; }
  // Whether another handshake may be brought on in this round.
  bool MayStep() { return steps_++ < kMostInRound; }

  struct Begun {
    Clock::time_point deadline;
    uint64_t number;  // of the client: another one may have its descriptor by then
    int fd;
  };
  // The next of those that began kPatience ago, once; they may have ended since.
  std::optional<Begun> TakeLate() {
    if (begun_.empty() || begun_.front().deadline > Clock::now()) return std::nullopt;
    const Begun late = begun_.front();
    begun_.pop_front();
    return late;
  }

 private:
  std::deque<Begun> begun_;  // the oldest first
  int steps_ = 0;            // in this round
};

}  // namespace gossamer::gateway
