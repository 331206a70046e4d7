// EpollSet: the descriptors that a worker waits for.
//
// Thread-safety: none; it belongs to one worker.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <span>

#include "common/unique_fd.h"

namespace gossamer::gateway {

class EpollSet {
 public:
  // Returns false if this process may open no more files.
  bool Open() {
    set_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
    return static_cast<bool>(set_);
  }
  // Returns false if this user may watch no more files.
  bool Watch(int fd, uint32_t events) { return Control(EPOLL_CTL_ADD, fd, events); }
  // Watches `fd` for `events` instead. Wait also reports events that happened before this call.
  bool Change(int fd, uint32_t events) { return Control(EPOLL_CTL_MOD, fd, events); }
  void Forget(int fd) { epoll_ctl(set_.get(), EPOLL_CTL_DEL, fd, nullptr); }
  // What has happened, in `to`; waits for so long that something does.
  std::span<const epoll_event> Wait(std::span<epoll_event> to, int timeout_ms) {
    const int count = epoll_wait(set_.get(), to.data(), static_cast<int>(to.size()), timeout_ms);
    return to.first(count < 0 ? 0 : static_cast<size_t>(count));
  }

 private:
  bool Control(int operation, int fd, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    return epoll_ctl(set_.get(), operation, fd, &event) == 0;
  }

  UniqueFd set_;
};

}  // namespace gossamer::gateway
