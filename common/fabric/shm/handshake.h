// How a client and a memory server of the shm fabric begin: one Hello, one Welcome, and file descriptors with it.
//
// Nothing here blocks but `Wait`: a server that is stopped costs its clients no time that they have for others.
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
  // Starts to connect. It ends within `timeout_ms`.
  Handshake(std::string address, const Hello& hello, uint32_t timeout_ms);

  // Goes as far as it can. True: the server has accepted, and what it sent is there. NodeUnreachable when nobody
  // listens or the time is over; otherwise the server's own error.
  Result<bool> Step();
  // Blocks until there may be something to do, for some milliseconds at most.
  void Wait() const;

  const Hello& hello() const { return hello_; }
  const std::string& address() const { return address_; }
  const Welcome& welcome() const { return welcome_; }
  std::vector<UniqueFd>& descriptors() { return descriptors_; }
  UniqueFd TakeSocket() { return std::move(socket_); }

 private:
  using Clock = std::chrono::steady_clock;

  // False: the server's queue is full.
  Result<bool> Connect();
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
