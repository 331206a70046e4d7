// Connecting a compute server to a memory server: the client's half of the connection manager's
// exchange, each step with a deadline.
//
// Thread-safety: functions without state; a connection belongs to one thread. Everything here
// blocks, for at most the connection timeout.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "common/fabric/fabric.h"
#include "common/fabric/verbs_address.h"
#include "common/fabric/verbs_device.h"
#include "common/fabric/verbs_resources.h"
#include "common/fabric/verbs_wire.h"

namespace gossamer::verbs {

// The client's end of a connection. Destroying it tells the server.
struct Connection {
  EventChannel channel;
  ConnectionId id;
  ServerInfo server;
  uint32_t path_mtu = 0;  // bytes; 0: not connected yet

  Connection() = default;
  Connection(Connection&&) = default;
  Connection& operator=(Connection&& other) noexcept {
    // The identifier first: it needs its channel.
    id = std::move(other.id);
    channel = std::move(other.channel);
    server = other.server;
    path_mtu = other.path_mtu;
    return *this;
  }
  ~Connection();

  // Moves the queue pair to its error state, so that all its work ends.
  void Break();
  // Whether the peer has gone, as far as the connection manager has heard. Does not block.
  bool PeerIsGone();
};

// The connection manager of the server tells connections apart by their queue pair's number, and
// refuses one whose number it still knows (Contended): of a client that has just died, or, as
// probes have none and say 0, of another probe of this machine at the same moment. The answer is to
// try anew a little later.
class RetryWhileStale {
 public:
  explicit RetryWhileStale(const ComputePortOptions& options)
      : deadline_(Clock::now() + std::chrono::milliseconds(options.connection_timeout_ms)) {}
  // Waits, and says whether to try again after `error`.
  bool Again(const Error& error);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point deadline_;
  std::minstd_rand random_{std::random_device{}()};
};

// What a compute port found at an address.
struct Peer {
  SocketAddress address;
  std::shared_ptr<Device> device;  // that reaches it
  uint64_t incarnation = 0;
};

// Asks whether `incarnation` (0: whichever) is at `address`, over `device` if there is one yet.
// NodeUnreachable when nobody answers or another incarnation does, InvalidArgument when the device
// that reaches the address is not the one asked for.
Result<Peer> ProbePeer(const SocketAddress& address, uint64_t incarnation,
                       const std::shared_ptr<Device>& device, const ComputePortOptions& options);

// Prepares an identifier with a queue pair to `peer` whose completions go to `queue`. Receives can
// be posted to it.
Result<Connection> PrepareConnection(const Peer& peer, ibv_cq* queue,
                                     const ComputePortOptions& options);

// Connects what `PrepareConnection` made; returns when the server has destroyed connection
// `replaces` and accepted this one. Contended: see RetryWhileStale; needs another queue pair then.
Status EstablishConnection(Connection& connection, const Peer& peer, uint64_t replaces,
                           const ComputePortOptions& options);

}  // namespace gossamer::verbs
