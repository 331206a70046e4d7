// For tests: a TCP client that sends and receives bytes as they are, without any knowledge of HTTP.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>

namespace gossamer {

class RawClient {
 public:
  // `address`: "127.0.0.1:PORT".
  explicit RawClient(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const size_t colon = address.rfind(':');
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
    inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
    is_connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { close(fd_); }

  bool is_connected() const { return is_connected_; }

  void Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void EndSending() const { shutdown(fd_, SHUT_WR); }

  // All that comes until the server closes, or until a minute has passed.
  std::string ReadToEnd() {
    return ReadWhile([](const std::string&) { return true; });
  }
  // All that comes until `text` has come.
  std::string ReadUntil(std::string_view text) {
    return ReadWhile([&](const std::string& got) { return got.find(text) == std::string::npos; });
  }
  // Sends a GET that ends the connection, and returns the whole reply.
  std::string Get(std::string_view path) {
    Send("GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return ReadToEnd();
  }

 private:
  template <typename WantsMore>
  std::string ReadWhile(WantsMore wants_more) const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    std::string got;
    while (wants_more(got) && std::chrono::steady_clock::now() < deadline) {
      pollfd ready{fd_, POLLIN, 0};
      if (poll(&ready, 1, 100) == 0) continue;
      char buffer[4096];
      const ssize_t bytes = recv(fd_, buffer, sizeof buffer, 0);
      if (bytes <= 0) break;
      got.append(buffer, static_cast<size_t>(bytes));
    }
    return got;
  }

  const int fd_;
  bool is_connected_ = false;
};

}  // namespace gossamer
