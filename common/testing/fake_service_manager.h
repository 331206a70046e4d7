// For tests: what systemd does with the messages of sd_notify(3) and with file descriptors.
#pragma once

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/unique_fd.h"

namespace gossamer {

class FakeServiceManager {
 public:
  // `path`: of its socket.
  explicit FakeServiceManager(std::string path)
      : path_(std::move(path)), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      thread_ = std::thread([this] { Listen(); });
    }
  }
  FakeServiceManager(const FakeServiceManager&) = delete;
  FakeServiceManager& operator=(const FakeServiceManager&) = delete;
  ~FakeServiceManager() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
  }

  // Reads no message until `pause` is false.
  void Pause(bool pause) { pauses_ = pause; }

  // Messages so far, without those of barriers.
  std::vector<std::string> told() const {
    const std::lock_guard guard(mutex_);
    return told_;
  }
  // Names of what it keeps.
  std::vector<std::string> kept() const {
    const std::lock_guard guard(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, descriptor] : kept_) names.push_back(name);
    return names;
  }

  // The command that starts a process of the service, with what is kept, and its environment.
  std::vector<std::string> Command(const std::vector<std::string>& program) const {
    const std::lock_guard guard(mutex_);
    std::string script = "LISTEN_PID=$$ exec \"$0\" \"$@\"";
    for (int number = 3; const auto& [name, descriptor] : kept_) {
      script += fmt::format(" {}<>/proc/{}/fd/{}", number++, ::getpid(), descriptor.get());
    }
    std::vector<std::string> command = {"/bin/sh", "-c", script};
    command.insert(command.end(), program.begin(), program.end());
    return command;
  }
  std::vector<std::string> Environment() const {
    const std::lock_guard guard(mutex_);
    std::string names;
    for (const auto& [name, descriptor] : kept_) names += (names.empty() ? "" : ":") + name;
    return {"NOTIFY_SOCKET=" + path_, fmt::format("LISTEN_FDS={}", kept_.size()),
            "LISTEN_FDNAMES=" + names};
  }

 private:
  void Listen() {
    while (!ends_) {
      pollfd ready{socket_.get(), POLLIN, 0};
      // It may have paused while this waited.
      if (pauses_ || ::poll(&ready, 1, 10) != 1 || pauses_) {
        if (pauses_) ::usleep(1000);
        continue;
      }
      Receive();
    }
  }

  void Receive() {
    std::array<char, 4096> text{};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> rights{};
    iovec buffer{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &buffer;
    message.msg_iovlen = 1;
    message.msg_control = rights.data();
    message.msg_controllen = rights.size();
    const ssize_t bytes = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (bytes < 0) return;
    UniqueFd descriptor;
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header), sizeof number);
      descriptor = UniqueFd(number);
    }
    const std::string state(text.data(), static_cast<size_t>(bytes));
    if (state == "BARRIER=1") return;
    const std::lock_guard guard(mutex_);
    told_.push_back(state);
    const size_t at = state.find("FDNAME=");
    const std::string name = at == std::string::npos ? "stored" : state.substr(at + 7);
    if (state.starts_with("FDSTORE=1\n")) kept_.insert_or_assign(name, std::move(descriptor));
    if (state.starts_with("FDSTOREREMOVE=1\n")) kept_.erase(name);
  }

  const std::string path_;
  const UniqueFd socket_;
  std::atomic<bool> ends_ = false;
  std::atomic<bool> pauses_ = false;
  mutable std::mutex mutex_;
  std::vector<std::string> told_;
  std::map<std::string, UniqueFd> kept_;
  std::thread thread_;
};

}  // namespace gossamer
