// The handshake between a client and a memory server of the shm fabric: one Hello, one Welcome with
// file descriptors.
//
// Only `Wait` blocks: a stopped server costs its clients no time that they need for other servers.
// Thread-safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "common/fabric/shm/socket.h"
#include "common/status.h"

namespace gossamer::shm {

class Handshake {
 public:
  // Starts to connect. The handshake ends within `timeout_ms`.
  Handshake(std::string address, const Hello& hello, uint32_t timeout_ms);

  // Proceeds as far as possible without blocking. kDone: the server has accepted, and its message
  // has arrived. Errors: NodeUnreachable when no server listens or the time is over; otherwise the
  // server's own error.
  Result<ConnectState> Step();
  // Blocks until there may be progress, for some milliseconds at most.
  void Wait() const;

  const Hello& hello() const { return hello_; }
  const std::string& address() const { return address_; }
  const Welcome& welcome() const { return welcome_; }
  std::vector<UniqueFd>& descriptors() { return descriptors_; }
  UniqueFd TakeSocket() { return std::move(socket_); }

 private:
  using Clock = std::chrono::steady_clock;

  // Does nothing if the server's queue is full: `socket_` stays empty.
  Status Connect();
  Transfer ReceiveWelcome(size_t* bytes);

  std::string address_;
  Hello hello_;
  std::chrono::milliseconds timeout_;
  Clock::time_point deadline_;
  UniqueFd socket_;  // once connected
  Welcome welcome_;
  std::vector<UniqueFd> descriptors_;
};

}  // namespace gossamer::shm
