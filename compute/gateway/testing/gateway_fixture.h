// A gateway over a store in this process, and clients that speak the protocol byte by byte.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/unique_fd.h"
#include "compute/gateway/gateway.h"

namespace gossamer::gateway {

class Connection {
 public:
  explicit Connection(const std::string& path) : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, path.data(), path.size());
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  }

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t done = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ASSERT_GT(done, 0);
      bytes.remove_prefix(static_cast<size_t>(done));
    }
  }
  // Sends `bytes` again and again, and receives nothing. Returns the error that ends this; EAGAIN
  // if nothing is taken for long.
  int SendUntilItFails(std::string_view bytes) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    while (send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) continue;
    return errno;
  }
  // So many bytes; fewer if the connection ends.
  std::string Receive(size_t bytes) {
    std::string text(bytes, '\0');
    size_t at = 0;
    while (at < bytes) {
      const ssize_t got = recv(socket_.get(), text.data() + at, bytes - at, 0);
      if (got <= 0) break;
      at += static_cast<size_t>(got);
    }
    text.resize(at);
    return text;
  }
  // All that comes until the connection ends; last_error() tells how it did.
  std::string ReceiveToEnd() {
    std::string text;
    std::vector<char> bytes(64 * 1024);
    for (;;) {
      const ssize_t got = recv(socket_.get(), bytes.data(), bytes.size(), 0);
      last_error_ = got < 0 ? errno : 0;
      if (got <= 0) return text;
      text.append(bytes.data(), static_cast<size_t>(got));
    }
  }
  // Of ReceiveToEnd: 0 if the other side closed.
  int last_error() const { return last_error_; }
  // Sends all of it. Returns false if nobody takes it any more.
  bool TrySend(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t done = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (done <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(done));
    }
    return true;
  }
  void Expect(std::string_view request, std::string_view reply) {
    Send(request);
    EXPECT_EQ(Receive(reply.size()), reply) << request;
  }
  // Up to the end of the line, without it.
  std::string ReceiveLine() { return ReceiveLineOf("\r\n"); }
  // Likewise, of lines that end so.
  std::string ReceiveLineOf(std::string_view end) {
    std::string line;
    while (!line.ends_with(end)) {
      const std::string one = Receive(1);
      if (one.empty()) return line;
      line += one;
    }
    return line.substr(0, line.size() - end.size());
  }
  // The bytes of a bulk reply.
  std::string ReceiveBulk() {
    std::string header = ReceiveLine();
    if (!header.starts_with('$') || header.starts_with("$-")) return header;
    const size_t bytes = std::stoul(header.substr(1));
    return Receive(bytes + 2).substr(0, bytes);
  }
  void EndSending() { shutdown(socket_.get(), SHUT_WR); }
  bool IsClosed() { return Receive(1).empty(); }

 private:
  UniqueFd socket_;
  int last_error_ = 0;
};

inline std::string Bulk(std::string_view bytes) {
  return "$" + std::to_string(bytes.size()) + "\r\n" + std::string(bytes) + "\r\n";
}
inline std::string Request(const std::vector<std::string>& arguments) {
  std::string text = "*" + std::to_string(arguments.size()) + "\r\n";
  for (const std::string& one : arguments) text += Bulk(one);
  return text;
}

class GatewayTest : public testing::Test {
 protected:
  void Open(GatewayOptions options = {}) {
    LocalOptions local;
    local.memory_bytes = uint64_t{64} << 20;
    store_ = std::move(Store::OpenLocal(local).value());
    StartGateway(std::move(options));
  }
  // In the place of the one before.
  void StartGateway(GatewayOptions options = {}) {
    gateway_.reset();
    path_ = testing::TempDir() + "gateway_" + std::to_string(getpid()) + ".sock";
    options.listen = {"unix:" + path_};
    Result<std::unique_ptr<Gateway>> gateway = Gateway::Start(options, *store_);
    ASSERT_TRUE(gateway) << gateway.error().ToString();
    gateway_ = std::move(gateway.value());
  }
  Connection Connect() { return Connection(path_); }

  std::unique_ptr<Store> store_;
  std::string path_;
  std::unique_ptr<Gateway> gateway_;
};

}  // namespace gossamer::gateway
