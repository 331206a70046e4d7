// Acceptor: accepts clients at a worker's listeners, and gives each to the worker that has the
// fewest.
//
// The kernel does not share connections out evenly: at an address it goes by a hash, and a path's
// all come to the worker that is awake. A pipeline keeps a worker busy, so that uneven shares would
// leave processors idle.
//
// Thread-safety: none; it belongs to one worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "compute/gateway/connection/epoll_set.h"
#include "compute/gateway/connection/inbox.h"
#include "compute/gateway/connection/listener.h"

namespace gossamer::gateway {

class Acceptor {
 public:
  // Connections that one call of Accept takes at most: a flood of them must not keep the worker
  // from its clients.
  static constexpr int kMostAtOnce = 64;

  // `inboxes`: of all workers. It outlives the acceptor.
  Acceptor(std::vector<Listener> listeners, Inboxes& inboxes)
      : listeners_(std::move(listeners)), inboxes_(inboxes) {}

  // Has `epoll` watch the listeners. Returns false if that is not possible.
  bool Open(EpollSet& epoll);
  void Close(EpollSet& epoll);
  // Accepts connections that wait, kMostAtOnce at most, if `fd` is that of a listener; `epoll`
  // tells of the others again.
  // Returns whether it is. Adds to `rejected` connections that were refused, as all workers have
  // `max_clients` together.
  bool Accept(int fd, EpollSet& epoll, uint64_t max_clients, uint64_t& rejected);
  // Call in each round: listeners that were left alone for a while are watched again.
  void Resume(EpollSet& epoll);

 private:
  using Clock = std::chrono::steady_clock;
  // How long nobody is accepted after the process has run out of descriptors.
  static constexpr std::chrono::milliseconds kPause{100};

  // While the process has no descriptors left, listeners are not watched: they would be ready all
  // the time.
  void Pause(EpollSet& epoll);

  const std::vector<Listener> listeners_;
  Inboxes& inboxes_;
  std::optional<Clock::time_point> resume_at_;
};

}  // namespace gossamer::gateway
