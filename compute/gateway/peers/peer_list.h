// The peers of a compute server: the others of its store, which bring messages of channels to each
// other. They find each other by a note of the bootstrap, "peers+STORE":
//
//   gossamer-peers 1
//   peer=00d1ce5eed5a1ad5 host=ant address=10.0.0.1:7400 token=9f0c… beat=12
//
// Each compute server has a line, and raises its beat every kBeat. A line whose beat has stood for
// kForgotten, by the clock of the one that looks, is of a compute server that has died: whoever
// writes next leaves it out. A note that the bootstrap has lost is written again by all of them.
//
// `token` is what a peer must show to that compute server. So whoever may read the bootstrap may
// publish at every compute server. That is no more than it may do anyway: the bootstrap has the
// addresses of the memory servers, which ask for no password.
//
// Thread-safety: one thread at a time.
// Cost of a look: one read of the bootstrap, and a compare-and-swap every kBeat.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/bootstrap/bootstrap.h"
#include "common/status.h"

namespace gossamer::gateway {

struct Peer {
  uint64_t id = 0;  // of the process
  std::string host;
  std::string address;  // "10.0.0.1:7400" or "unix:PATH"
  std::string token;
  uint64_t beat = 0;

  friend bool operator==(const Peer&, const Peer&) = default;
};

std::string EncodePeers(const std::vector<Peer>& peers);
// nullopt: `text` is not such a note. Lines that are none of this version are left out.
std::optional<std::vector<Peer>> ParsePeers(std::string_view text);

class PeerList {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kBeat{10};
  static constexpr std::chrono::seconds kForgotten{60};

  // `bootstrap` outlives this. `self`: without an address, it only looks.
  PeerList(Bootstrap& bootstrap, const std::string& store, Peer self)
      : bootstrap_(bootstrap), note_(NoteName("peers", store)), self_(std::move(self)) {}

  // Returns the others. Errors: those of the bootstrap; Contended if the note keeps changing;
  // InvalidArgument if the note is of another version.
  Result<std::vector<Peer>> Look(Clock::time_point now);
  // Takes this one out. Errors: as of Look.
  Status Leave();

 private:
  struct Seen {
    uint64_t beat;
    Clock::time_point since;
  };

  // Changes the note if it is to be changed. Returns false if somebody else did.
  Result<bool> TryLook(Clock::time_point now, bool stays, std::vector<Peer>& others);

  Bootstrap& bootstrap_;
  const std::string note_;
  Peer self_;
  Clock::time_point next_beat_{};
  std::map<uint64_t, Seen> seen_;
};

}  // namespace gossamer::gateway
