// Connects a compute server to a memory server: the client's half of the connection manager's
// exchange, with one deadline for all steps.
//
// Thread-safety: none; a connection belongs to one thread at a time. `Await` and `ProbePeer` wait
// for the other end, for at most the connection timeout.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/compute_port.h"
#include "common/fabric/verbs/address.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/resources.h"
#include "common/fabric/verbs/wire.h"

namespace gossamer::verbs {

// The client's end of a connection. Destroying it notifies the server.
struct Connection {
  EventChannel channel;
  ConnectionId id;
  ConnectReply server;
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
  // Whether the connection manager has reported that the peer is gone. Does not block.
  bool PeerIsGone();
};

// When an attempt to connect ends, and whether there is another one behind it.
struct AttemptEnd {
  std::chrono::steady_clock::time_point at;
  bool is_last = true;
};

// Attempts to connect within the connection time-out. An attempt that may be followed by another
// ends with Contended:
//   - The server's connection manager identifies connections by their queue pair's number, and
//     refuses a number that it still knows: that of a client that has just died, or, as all probes
//     have number 0, of another concurrent probe of this machine.
//   - The network may have been down for a moment. The connection manager sends a request again
//     after four seconds only, so the second half of the time has an attempt of its own.
class ConnectRetry {
 public:
  using Clock = std::chrono::steady_clock;
  explicit ConnectRetry(const ComputePortOptions& options)
      : half_(std::chrono::milliseconds(options.connection_timeout_ms) / 2),
        deadline_(Clock::now() + 2 * half_) {}
  // Whether to try again after `error`, at `next_try`.
  bool Again(const Error& error);
  Clock::time_point next_try() const { return next_try_; }
  bool pauses() const { return Clock::now() < next_try_; }
  AttemptEnd NextEnd() const;

 private:
  Clock::duration half_;
  Clock::time_point deadline_;
  Clock::time_point next_try_{};
  std::minstd_rand random_{std::random_device{}()};
};

// What a compute port found at an address.
struct Peer {
  SocketAddress address;
  std::shared_ptr<Device> device;  // reaches the address
  uint64_t incarnation = 0;
  // Of the device, and of its port that reaches the address.
  std::vector<std::pair<std::string, std::string>> facts;
  uint8_t port_number = 0;
};

// Checks whether `incarnation` (0: any) is at `address`, over `device` if not null. Errors:
// NodeUnreachable when no server or another incarnation answers; InvalidArgument when the device
// that reaches the address is not the requested one.
Result<Peer> ProbePeer(const SocketAddress& address, uint64_t incarnation,
                       const std::shared_ptr<Device>& device, const ComputePortOptions& options);

// One try: find the device and the route; then connect to the server, with a queue pair.
class ConnectAttempt {
 public:
  using Clock = std::chrono::steady_clock;
  // `device`: the one that must reach the address; may be null. Requires (unchecked): `options`
  // outlive the attempt.
  static Result<ConnectAttempt> Begin(const SocketAddress& address, const Device* device,
                                      const ComputePortOptions& options, AttemptEnd end);

  // Waits until the route is found; after `Send`, until the server has answered. Ends with
  // Contended soon after `is_cancelled` is set.
  Status Await(const std::atomic<bool>* is_cancelled = nullptr);

  // After the route is found: the identifier with a queue pair in `domain`, whose completions go to
  // `queue`.
  // Receives can be posted to it.
  Result<Connection> MakeQueuePair(const Peer& peer, ibv_pd* domain, ibv_cq* queue);
  // The same without a queue pair, for probes.
  Connection TakeConnection() { return std::move(connection_); }
  Status Send(const Connection& connection, const ConnectRequest& request);

  // Evaluates the answer. Ok: the server has destroyed the connection to be replaced, and accepted
  // this one. Errors: Contended: see ConnectRetry.
  Status Established(Connection& connection) const;
  // Evaluates the answer to a probe.
  Result<ConnectReply> Probed() const;
  ibv_context* verbs() const { return connection_.id->verbs; }

 private:
  enum class Stage : uint8_t { kAddress, kRoute, kResolved, kAsked, kAnswered };
  struct Event {
    rdma_cm_event_type type{};
    int status = 0;
    std::array<std::byte, 256> private_data{};
    size_t private_bytes = 0;
  };

  ConnectAttempt(const SocketAddress& address, const Device* device,
                 const ComputePortOptions& options, AttemptEnd end)
      : address_(address), device_(device), options_(&options), end_(end) {}
  Status ResolveAddress();
  Status ResolveRoute();
  Status OnEvent(const Event& event);
  // Returns nullopt if there is no event yet.
  Result<std::optional<Event>> NextEvent();
  int left_ms() const;
  static std::optional<ConnectReply> ReadReply(const Event& event);
  Error Unreachable(const std::string& why) const;
  // Of what may be better in a moment.
  Error UnreachableNow(const std::string& why) const;
  Error Unexpected(const Event& event) const;
  Error Rejected() const;
  Status CheckPath(Connection& connection) const;

  SocketAddress address_;
  const Device* device_;
  const ComputePortOptions* options_;
  AttemptEnd end_;
  Stage stage_ = Stage::kAddress;
  Connection connection_;                  // until it is taken
  rdma_event_channel* channel_ = nullptr;  // of connection_
  Event answer_;
};

}  // namespace gossamer::verbs
