// For tests: a memcached of their own on 127.0.0.1 and a free port.
#pragma once

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "common/testing/child_process.h"

namespace gossamer {

inline sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// A port that was free a moment ago.
inline uint16_t FreePort() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  uint16_t port = 0;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port = ntohs(address.sin_port);
  }
  close(listener);
  return port;
}

class MemcachedProcess {
 public:
  MemcachedProcess() { Start(); }

  bool running() const { return process_ != nullptr; }
  std::string url() const { return fmt::format("memcached://127.0.0.1:{}", port_); }
  void Kill() { process_ = nullptr; }
  // Restarts at the same port, without its items.
  void Restart() {
    process_ = nullptr;
    Launch();
  }
  // Removes all items. Returns whether that worked.
  bool FlushAll() const {
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(port_);
    const std::string command = "flush_all\r\n";
    char answer[8] = {};
    const bool flushed =
        connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        write(client, command.data(), command.size()) > 0 &&
        read(client, answer, sizeof answer) > 0 && std::string(answer, 2) == "OK";
    close(client);
    return flushed;
  }
  void Signal(int signal) const { process_->Signal(signal); }

 private:
  // Tries another port if another process took the first.
  void Start() {
    for (int attempt = 0; attempt < 5 && process_ == nullptr; ++attempt) {
      port_ = FreePort();
      Launch();
    }
  }
  void Launch() {
    process_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{"memcached", "-u", "nobody", "-l", "127.0.0.1", "-p",
                                 std::to_string(port_), "-m", "16", "-t", "1"});
    if (!WaitUntilItAnswers()) process_ = nullptr;
  }
  bool WaitUntilItAnswers() const {
    for (int i = 0; i < 500; ++i) {
      const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = Loopback(port_);
      const bool connected =
          connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
      close(client);
      if (connected) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

  uint16_t port_ = 0;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace gossamer
